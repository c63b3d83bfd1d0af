package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
	"github.com/capriccio-go/capriccio/internal/httpcases"
	"github.com/capriccio-go/capriccio/knot"
)

// largeFile is what slow readers ask for.
const largeFile = "/large"

// caseServers are servers that answer the table of cases, below a folder that they serve files from.
func (r *run) caseServers() ([]launcher, error) {
	root := filepath.Join(r.scratch, "site")
	if err := r.prepare(0, func() error { return writeCaseFiles(root) }); err != nil {
		return nil, err
	}
	var found []launcher
	for _, kind := range []string{"knot", "knot-net-http", "net-http"} {
		found = append(found, r.own(kind, nil, "cases", kind, root))
	}
	return append(found, r.nginx("nginx", nginxSite{server: fmt.Sprintf(nginxCases, root)}.config)...), nil
}

func writeCaseFiles(root string) error {
	err := writeAll(root, map[string][]byte{httpcases.FilePath: []byte(httpcases.File), largeFile: []byte(strings.Repeat(httpcases.File, 20_000))})
	old := time.Now().Add(-time.Hour) // their dates are then strong validators
	return errors.Join(err, os.Chtimes(root+httpcases.FilePath, old, old), os.Chtimes(root+largeFile, old, old))
}

const nginxCases = `add_header Seen '$request_method "$request_uri"';
location = /file { root %[1]s; }
location = /large { root %[1]s; }
location = /none { root %[1]s; }
location = /204 { return 204; }
location / { return 200 "seen\n"; }`

// runCases is one of our servers, or net/http's, with all as it comes.
func runCases(args []string, out io.Writer) {
	kind, root := args[0], args[1]
	files := must(knot.OpenFiles(root, knot.FilesConfig{}))
	mux := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case httpcases.FilePath, largeFile, "/none":
			http.FileServer(http.Dir(root)).ServeHTTP(w, r)
		default:
			httpcases.Handler(w, r)
		}
	})
	server := &knot.Server{Handler: func(x *knot.Ctx) error {
		switch x.Path() {
		case httpcases.FilePath, largeFile, "/none":
			return files.Handle(x)
		case httpcases.NoContent:
			return knot.Status(http.StatusNoContent)
		}
		body, err := io.ReadAll(x.Body())
		if err != nil {
			return err
		}
		x.AddHeader("Seen", httpcases.Seen(x.Method(), x.Path(), string(body)))
		return x.SendString(http.StatusOK, "text/plain", "seen\n")
	}}
	switch kind {
	case "net-http":
		serveOnGoroutines(out, func(ln net.Listener) error { return http.Serve(ln, mux) })
		return
	case "knot-net-http":
		server.Handler = knot.AdaptHTTP(mux)
	}
	serveKnot(must(oneLoop()), server, out)
}

// caseLists are the lists of cases, in the order of their x.
var caseLists = []struct {
	letter rune
	name   string
}{{httpcases.Http11Probe, "Http11Probe"}, {httpcases.H1spec, "h1spec"}, {httpcases.NginxTests, "nginx-tests"}}

// conformanceExperiment counts the cases that servers pass and fail. What fails is printed.
var conformanceExperiment = experiment{
	name: "conformance",
	doc:  "cases of Http11Probe, h1spec and nginx-tests that servers pass and fail",
	after: func(r *run) error {
		launchers, err := r.caseServers()
		if err != nil {
			return err
		}
		servers := r.startAll(launchers)
		defer closeAll(servers)
		return r.prepare(10*time.Second, func() error { return r.countCases(servers) })
	},
	notes:  []string{"x is 0 for all cases, and for those of Http11Probe 1, h1spec 2, nginx-tests 3. net-http serves files by FileServer, which does not look at methods; nginx reads no content that nobody asks for"},
	charts: []report.Chart{{Title: "Cases that failed", Metric: "failed", XLabel: "all, Http11Probe, h1spec, nginx-tests", Bars: true}},
}

// countCases counts what each server passes and fails.
func (r *run) countCases(servers []*server) error {
	for _, s := range servers {
		c := &httpcases.Client{Dial: func() (net.Conn, error) { return net.Dial("tcp", s.addr) }, Pause: func() { time.Sleep(20 * time.Millisecond) }, Patience: 5 * time.Second}
		if err := c.Learn(); err != nil {
			return fmt.Errorf("%s: %w", s.system, err)
		}
		passed, failed, without := r.tryCases(s.system, c)
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		for i := range passed {
			if err := r.add(s.system, []sample{{metric: "passed", unit: "1", x: float64(i), value: float64(passed[i])}, {metric: "failed", unit: "1", x: float64(i), value: float64(failed[i])}}); err != nil {
				return err
			}
		}
		if without > 0 {
			r.note("%s: its file has no ETag, so that %d cases could not be tried", s.system, without)
		}
		if failed[0] > 0 && s.system == "knot" {
			r.failed = fmt.Errorf("knot: %d cases have failed", failed[0])
		}
	}
	return nil
}

// tryCases counts all cases, and those of each list.
func (r *run) tryCases(system string, c *httpcases.Client) (passed, failed [4]int, without int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	places := make(chan bool, 16)
	for _, k := range append(httpcases.Cases[:len(httpcases.Cases):len(httpcases.Cases)], httpcases.FileCases...) {
		if c.Needs(&k) {
			without++
			continue
		}
		places <- true
		all.Go(func() {
			defer func() { <-places }()
			if r.ctx.Err() != nil {
				return
			}
			got, fault := c.Run(&k)
			ok := fault == "" && httpcases.Allowed(got, k.Want)
			mu.Lock()
			defer mu.Unlock()
			counts := &passed
			if !ok {
				counts = &failed
				fmt.Fprintf(r.progress, "%s fails: %s (RFC %s): %s, want %s %s\n", system, k.Name, k.Section, got, k.Want, fault)
			}
			counts[0]++
			for i, list := range caseLists {
				if strings.ContainsRune(k.Lists, list.letter) {
					counts[i+1]++
				}
			}
		})
	}
	all.Wait()
	return passed, failed, without
}
