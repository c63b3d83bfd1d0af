package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
)

// The servers of the experiment admission. All do the chores of package chores.

// Families of systems. Each has its own capacity, as the same chore costs more in one.
const (
	knotFamily = "knot"
	httpFamily = "net-http"
	fileFamily = "nginx" // files only
)

// oracleSystem is Knot with the best fixed limit of requests inside, found by a sweep.
const oracleSystem = "oracle"

// admissionPeers are the systems that peers/NAME has the programs of.
var admissionPeers = map[string]string{
	"failsafe-go":    "admit-failsafe",
	"limit-listener": "admit-listener",
	"go-zero":        "admit-gozero",
}

// admissionSystems are all systems, in the order of the table's columns.
var admissionSystems = []string{
	"capriccio", "capriccio-fifo", "net-http", "failsafe-go", "limit-listener", "go-zero", "nginx", oracleSystem,
}

var admissionQuick = []string{"capriccio", "capriccio-fifo", "net-http"}

type site struct {
	*server
	group  *proc.Group   // of memory; nil if it is in none
	quota  *proc.Group   // likewise, of CPU
	beside []*proc.Child // what acts have started
	conns  []net.Conn    // what acts have opened
	others float64       // what else ran on the server core meanwhile, %; negative if not known
	dead   bool          // it was killed for the memory that it took
	watch  *memoryWatch  // nil if its memory is not watched

	peak    int64 // bytes that its group has used at most, once it is closed
	peakErr error // why that is not known
}

func (s *site) pids() []int {
	pids := []int{s.child.PID()}
	for _, child := range s.beside {
		pids = append(pids, child.PID())
	}
	return pids
}

func (s *site) close() error {
	for _, c := range s.conns {
		c.Close()
	}
	s.child.Close()
	for _, child := range s.beside {
		child.Close()
	}
	if s.group != nil {
		s.peak, s.peakErr = s.group.Peak()
	}
	return s.closeGroups()
}

func (s *site) closeGroups() error {
	return errors.Join(s.group.Close(), s.quota.Close())
}

// needs are what a row asks of its server beside the defaults.
type needs struct {
	env         []string
	prioritized bool
	limit       int64   // of the oracle
	memory      int64   // bytes of a memory cgroup
	watch       int64   // resident bytes beyond which it is killed, where there is no cgroup
	quota       float64 // share of the core, by a CPU cgroup
	addr        string  // to listen on; "": any
	descriptors int     // limit of open descriptors; 0: as it is
	counted     bool    // see chores.NewFlags
}

type admissionSystem struct {
	name, family string
	start        func(ctx context.Context, n needs) (*site, error)
}

// system finds a system, and builds it if it has to be.
func (m *matrix) system(name string) (admissionSystem, error) {
	switch name {
	case "capriccio":
		return m.ours(name, nil), nil
	case "capriccio-fifo", oracleSystem:
		return m.ours(name, []string{capriccio.EnvSched + "=fifo"}), nil
	case "net-http":
		return m.program(name, httpFamily, m.self, nil, workerCommand, "chores-net-http"), nil
	case "nginx":
		path, err := m.find("nginx")
		return admissionSystem{name, fileFamily, func(ctx context.Context, _ needs) (*site, error) {
			s, err := startConfigured(ctx, nginxServer(name, path, nginxSite{ // the limit of connections is chosen by hand to be far above what any row of files has
				http:   "error_log stderr crit; sendfile on; limit_conn_zone $server_port zone=all:1m; limit_conn_status 503;",
				server: fmt.Sprintf(`limit_conn all 15000; location = /hello { return 200 "%s"; } location /files/ { root %s; }`, chores.HelloText, m.root),
			}.config), m.scratch)
			return &site{server: s}, err
		}}, err
	}
	peer, ok := admissionPeers[name]
	if !ok {
		return admissionSystem{}, &usageError{fmt.Sprintf("no system %q: choose from %s", name, strings.Join(admissionSystems, ", "))}
	}
	path, err := m.buildPeer(peer)
	return m.program(name, httpFamily, path, nil), err
}

// ours is Knot, with all defaults but for one loop.
func (m *matrix) ours(name string, env []string) admissionSystem {
	return m.program(name, knotFamily, m.self, env, workerCommand, "chores-knot")
}

// program is a system that is one program, which takes the flags of chores.NewFlags.
func (m *matrix) program(name, family, path string, env []string, args ...string) admissionSystem {
	return admissionSystem{name, family, func(ctx context.Context, n needs) (*site, error) {
		flags := flagPairs("steps", m.steps, "root", m.root, "limit", n.limit, "prioritized", n.prioritized, "counted", n.counted)
		if n.addr != "" {
			flags = append(flags, "-addr="+n.addr)
		}
		return startSite(ctx, name, onCore(serverCore, slices.Concat(env, n.env), path, slices.Concat(args, flags)...), n)
	}}
}

// watchCore returns a function that says what else has run on the server core since then,
// in percent: to some ticks of 10 ms, and -1 if it can't be known, as the server has ended.
func (s *site) watchCore() func() float64 {
	return watchUse(func() (others time.Duration, err error) {
		server, err := proc.CPUTime(s.child.PID())
		if err != nil {
			return 0, err
		}
		busy, err := proc.CoreBusy(serverCore)
		return busy - server, err
	})
}

// startSite starts a program in the groups, and with the limit, that it needs.
func startSite(ctx context.Context, name string, command proc.Command, n needs) (s *site, err error) {
	s = &site{}
	if n.memory > 0 {
		if s.group, err = proc.NewMemoryGroup(n.memory); err != nil {
			return nil, err
		}
	}
	if n.quota > 0 {
		if s.quota, err = proc.NewCPUGroup(n.quota); err != nil {
			return nil, errors.Join(err, s.closeGroups())
		}
	}
	command.Descriptors, command.Groups = n.descriptors, []*proc.Group{s.group, s.quota}
	if s.server, err = startCommand(ctx, name, command); err != nil {
		return nil, errors.Join(err, s.closeGroups())
	}
	return s, nil
}

const (
	fileOf100KB = chores.FilesPath + "100k"
	fileOf8MB   = chores.FilesPath + "8m"
	pagePath    = chores.FilesPath + "page"
	pageFiles   = 60
)

// writeFiles makes the folder that servers serve files of.
func (m *matrix) writeFiles() error {
	m.root = filepath.Join(m.scratch, "root")
	files := map[string][]byte{fileOf100KB: make([]byte, 100_000), fileOf8MB: make([]byte, 8<<20), pagePath: make([]byte, 20_000)}
	for i := range pageFiles { // from an icon to a picture
		files[pagePath+"."+strconv.Itoa(i)] = make([]byte, 500<<(i%9))
	}
	return writeAll(m.root, files)
}

func writeAll(root string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, content, 0o666)); err != nil {
			return err
		}
	}
	return nil
}

// afterAll is how long a client may take beside its load.
const afterAll = 30 * time.Second
