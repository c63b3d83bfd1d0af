package capriccio

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/bgraph"
	data "github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

const (
	// EnvGraph sets whether the blocking graph is learned: on, the default, off, or
	// on with one wait in N timed: a number from 1 to 1000000.
	EnvGraph = "CAPRICCIO_GRAPH"
	// EnvDump is the file that SIGUSR2 writes the graph to, see WithDumpPath.
	EnvDump = "CAPRICCIO_DUMP"
)

const maxSampling = 1_000_000

// WithGraphLimits sets how many nodes the blocking graph has at most, and how many edges, and crossings (pairs of nodes
// between which wakes come from another loop), on each loop. Nodes and edges beyond the limits are counted, see
// docs/dump-format.md. 0: 4096 and 16384.
func WithGraphLimits(nodes, edges int) Option {
	return func(o *options) error {
		if nodes < 0 || edges < 0 {
			return fmt.Errorf("capriccio: WithGraphLimits(%d, %d); want two numbers of at least 1, or 0 for the default", nodes, edges)
		}
		o.graph.MaxNodes, o.graph.MaxEdges = nodes, edges
		return nil
	}
}

// WithoutGraph leaves out the blocking graph, which is learned otherwise unless EnvGraph says off. That saves a few
// nanoseconds at every wait.
func WithoutGraph() Option {
	return func(o *options) error { o.noGraph = true; return nil }
}

// WithDumpPath sets the file that the graph is written to when the process gets SIGUSR2. By default it is
// PROGRAM-PID.bgraph in the folder for temporary files; if path is a folder, it has that name in path. If two runtimes
// of a process would write to the same file, the second adds -2 to the name, and so on.
func WithDumpPath(path string) Option {
	return func(o *options) error {
		if path == "" {
			return fmt.Errorf("capriccio: WithDumpPath(%q); want the path of a file or folder", path)
		}
		o.dump = path
		return nil
	}
}

// Snapshot returns the blocking graph of rt as it is at this moment, also when rt is closed; nil if rt learns none
// (WithoutGraph). With rt nil it is that of task.Default, and nil if there is none. It may be called from any
// goroutine, and stops no loop: a task parks. It takes about 10 µs for each place where tasks wait.
func Snapshot(rt *task.Runtime) *bgraph.Graph {
	if rt == nil {
		rt = task.Default()
	}
	var g *bgraph.Graph
	engine.Offload(func() { // a loop that waits can't say what its scheduler does
		if s := (*engine.Runtime)(rt).Graph().Snapshot(); s != nil {
			g = data.Public(s).(*bgraph.Graph)
		}
	})
	return g
}

// readGraphEnv is the part of readEnv for the graph.
func (o *options) readGraphEnv(lookup func(string) string) error {
	switch v := lookup(EnvGraph); v {
	case "", "on":
	case "off":
		o.noGraph = true
	default:
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxSampling {
			return fmt.Errorf("capriccio: %s=%q; want on, off, or N to time one wait in N, from 1 to %d", EnvGraph, v, maxSampling)
		}
		o.graph.Sampling = n
	}
	o.dump = lookup(EnvDump)
	return nil
}

// dumpPath is where the dump goes, without regard to other runtimes. It is absolute, as the program may go to another
// folder later on.
func (o *options) dumpPath() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	name := fmt.Sprintf("%s-%d.bgraph", filepath.Base(exe), os.Getpid())
	path := o.dump
	if path == "" {
		path = os.TempDir() + string(filepath.Separator)
	}
	if info, err := os.Stat(path); os.IsPathSeparator(path[len(path)-1]) || err == nil && info.IsDir() {
		path = filepath.Join(path, name)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", fmt.Errorf("capriccio: the file for dumps of the graph: %w; name it with an absolute path", err)
	}
	return path, nil
}

// numbered is path for the nth runtime that would write to it.
func numbered(path string, n int) string {
	end := filepath.Ext(path)
	return strings.TrimSuffix(path, end) + "-" + strconv.Itoa(n) + end
}
