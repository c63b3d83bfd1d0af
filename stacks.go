package capriccio

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/capriccio-go/capriccio/internal/chunk"
	"github.com/capriccio-go/capriccio/stackchunk"
)

// EnvStacks is the file that the statistics of stack chunks are written to, as JSON, when
// a runtime is closed and when the process gets SIGUSR2; docs/stack-chunks.md names its fields. Nothing is
// written if it is empty, or if the program ends without closing its runtime.
const EnvStacks = "CAPRICCIO_STACKS"

// stackStats is what is written to the file that EnvStacks names, of the whole process.
type stackStats struct {
	Program string    `json:"program"` // path of the executable
	PID     int       `json:"pid"`
	Taken   time.Time `json:"taken"`
	stackchunk.Stats
	Sites   []chunk.SiteStats  `json:"sites"`   // by name; only sites that were ever passed
	Classes []chunk.ClassStats `json:"classes"` // by size
}

// readStacksEnv is the part of readEnv for stack chunks.
func (o *options) readStacksEnv(v string) error {
	if v == "" {
		return nil
	}
	path, err := filepath.Abs(v) // the program may go to another folder later on
	if err != nil {
		return fmt.Errorf("capriccio: %s=%q: %w; name the file with an absolute path", EnvStacks, v, err)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() || os.IsPathSeparator(v[len(v)-1]) {
		return fmt.Errorf("capriccio: %s=%q is a folder; want the path of a file", EnvStacks, v)
	}
	o.stacks = path
	return nil
}

// writeStacks replaces the file at path, which is whole at any time.
func writeStacks(path string) (err error) {
	defer func() { // a fault in here is no reason to end a program that works
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	counts := chunk.ReadCounts()
	text, err := json.MarshalIndent(stackStats{
		Program: exe, PID: os.Getpid(), Taken: time.Now().Round(0), Stats: stackchunk.ReadStats(), Sites: chunk.Sites(), Classes: counts.Classes(),
	}, "", "\t")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".stacks-*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
