package main

import (
	"context"
	"errors"
	"fmt"
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

// system finds a system, and builds it if it has to be.
func (m *matrix) system(name string) (launcher, error) {
	switch name {
	case "capriccio":
		return m.program(name, m.self, nil, workerCommand, "chores-knot"), nil
	case "capriccio-fifo", oracleSystem:
		return m.program(name, m.self, []string{capriccio.EnvSched + "=fifo"}, workerCommand, "chores-knot"), nil
	case "net-http", memlimitSystem:
		return m.program(name, m.self, nil, workerCommand, "chores-net-http"), nil
	case "nginx": // the limit of connections is chosen by hand to be far above what any row of files has
		return m.found(nginxServer(name, nginxSite{
			http:   "error_log stderr crit; sendfile on; limit_conn_zone $server_port zone=all:1m; limit_conn_status 503;",
			server: fmt.Sprintf(`limit_conn all 15000; location = /hello { return 200 "%s"; } location /files/ { root %s; }`, chores.HelloText, m.root),
		}.config))
	}
	peer, ok := admissionPeers[name]
	if !ok {
		return launcher{}, &usageError{fmt.Sprintf("no system %q: choose from %s", name, strings.Join(admissionSystems, ", "))}
	}
	path, err := m.buildPeer(peer)
	return m.program(name, path, nil), err
}

// plain is the system without limits that a system's capacity is that of: the same chore costs more on net/http.
func plain(system string) string {
	return choose(strings.HasPrefix(system, "capriccio") || system == oracleSystem, "capriccio-fifo", "net-http")
}

// program is a system that is one program, which takes the flags of chores.NewFlags.
func (m *matrix) program(name, path string, env []string, args ...string) launcher {
	return launcher{name, func(ctx context.Context, n needs) (*server, error) {
		flags := flagPairs("steps", m.steps, "root", m.root, "limit", n.limit, "prioritized", n.prioritized, "counted", n.counted)
		if n.addr != "" {
			flags = append(flags, "-addr="+n.addr)
		}
		return programServer(name, env, path, slices.Concat(args, flags)...).start(ctx, n)
	}}
}

// watchCore returns a function that says what else has run on the server core since then,
// in percent: to some ticks of 10 ms, and -1 if it can't be known, as the server has ended.
func (s *server) watchCore() func() float64 {
	return watchUse(func() (others time.Duration, err error) {
		server, err := proc.CPUTime(s.child.PID())
		if err != nil {
			return 0, err
		}
		busy, err := proc.CoreBusy(serverCore)
		return busy - server, err
	})
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
