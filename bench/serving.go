package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// fileServers are Knot and its peers before those files, with TLS if pem is the file of its key.
func (r *run) fileServers(pem string) []launcher {
	var found []launcher
	root := r.servedRoot()
	for _, kind := range []string{"knot", "net-http"} {
		found = append(found, r.own(kind, nil, "files", "-kind", kind, "-root", root, "-tls", pem))
	}
	forNginx, forLighttpd := "", ""
	if pem != "" {
		forNginx = fmt.Sprintf(" ssl; ssl_protocols TLSv1.3; ssl_certificate %[1]s; ssl_certificate_key %[1]s", pem)
		forLighttpd = fmt.Sprintf("server.modules = ( \"mod_openssl\" )\nssl.engine = \"enable\"\nssl.pemfile = \"%s\"\n", pem)
	}
	found = append(found, r.nginx("nginx", nginxSite{ // as an operator sets it up for files: it keeps them open, and sends full packets
		http: "sendfile on; tcp_nopush on; open_file_cache max=2000 inactive=60s;", listen: forNginx, server: "root " + root + ";",
	}.config)...)
	if pem == "" {
		found = append(found, r.peer("fasthttp", "-root", root)...)
	}
	return append(found, r.lighttpd(root, forLighttpd)...)
}

// mixFiles is how many files the mix has, of 0.6 to 32 KB, the small ones more often.
const mixFiles = 500

// servedFiles are the files of the experiments, and by KB, 0 being the mix, what the worker fetch is to be told of them.
func servedFiles() (asked map[int][]string, files map[string][]byte) {
	asked, files = map[int][]string{}, map[string][]byte{}
	add := func(x int, name string, size int) {
		asked[x] = append(asked[x], fmt.Sprintf("%s=%d", name, size))
		files[name] = bytes.Repeat([]byte("x"), size)
	}
	for _, kb := range servedKB {
		add(kb, fmt.Sprintf("%dk.txt", kb), kb<<10)
	}
	for i := range mixFiles {
		add(0, fmt.Sprintf("mix%d.txt", i), 600+(32<<10-600)*i*i/mixFiles/mixFiles)
	}
	return asked, files
}

func (r *run) servedRoot() string { return filepath.Join(r.scratch, "root") }
func (r *run) keyFile() string    { return filepath.Join(r.scratch, "key.pem") }

// writeServed writes the files, where nginx may read them, too.
func (r *run) writeServed() error {
	_, files := servedFiles()
	return errors.Join(writeAll(r.servedRoot(), files), os.Chmod(r.scratch, 0o755))
}

var servedKB = []int{1, 16, 100, 10 << 10}

func (r *run) idleTLS(ctx context.Context, s *server, p point, settle time.Duration) ([]sample, error) {
	before, _, err := r.holding(ctx, s, 50, settle, "-tls")
	if err != nil {
		return nil, err
	}
	after, _, err := r.holding(ctx, s, int(p.x), settle, "-tls")
	return []sample{{"bytes-per-conn", "B", p.x, float64(after-before) / (p.x - 50)}}, err
}

func writeKey(path string) error {
	made, err := selfSigned()
	if err != nil {
		return err
	}
	pair := made.Certificates[0]
	key, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	return os.WriteFile(path, append(text, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key})...), 0o666)
}

func (r *run) http2Sample(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) {
	tool, err := r.find("h2load")
	if err != nil {
		return nil, err
	}
	used := cpuSince(s.child.PID())
	lines, err := linesOf(ctx, d, proc.Command{Path: tool, Core: clientCore, Args: []string{
		"-t1", "-c" + strconv.Itoa(http2Conns), "-m" + strconv.Itoa(int(p.x)), "-D", fmt.Sprint(d.Milliseconds(), "ms"), "http://" + s.addr + "/"}})
	if err != nil {
		return nil, err
	}
	cpu, err := used()
	text := strings.Join(lines, "\n")
	done, failed := number(text, `status codes: (\d+) 2xx`), number(text, `(\d+) errored`)
	if done == 0 || failed > 0 {
		return nil, fmt.Errorf("h2load: %.0f requests answered, %.0f failed", done, failed)
	}
	return []sample{{"rps", "req/s", p.x, done / d.Seconds()}, {"cpu-per-request", "µs", p.x, float64(cpu.Nanoseconds()) / 1e3 / done}}, err
}

func (r *run) fetchSample(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) {
	asked, _ := servedFiles()
	flags := []any{"warm", d / 5, "for", d - d/5, "conns", choose(p.x > 1000, 8, helloConns)}
	if p.metric == besidePoint {
		return r.besideSample(ctx, s, p, d, flags, asked)
	}
	samples, err := r.client(ctx, d, s, "fetch", flags, asked[int(p.x)]...)
	return allAt(p.x, samples), err
}

// besideSample measures requests for the smallest file while others download a large one.
func (r *run) besideSample(ctx context.Context, s *server, p point, d time.Duration, flags []any, asked map[int][]string) ([]sample, error) {
	download := r.ownClient(slices.Concat([]string{"fetch"}, flagPairs(append(flags, "addr", s.addr, "pid", s.child.PID())...), asked[servedKB[len(servedKB)-1]])...)
	download.Path, download.Args = "nice", append([]string{"-n", "10", download.Path}, download.Args...)
	var large []sample
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		large, failed = samplesOf(ctx, d, download)
	}()
	small, err := r.client(ctx, d, s, "fetch", []any{"warm", d / 4, "for", d / 2, "conns", besideConns, "pause", besidePause}, asked[servedKB[0]]...)
	<-ended
	var kept []sample
	for _, one := range slices.Concat(onlyOf(small, "p50", "p99"), onlyOf(large, "throughput")) {
		kept = append(kept, sample{one.metric + besideSuffix, one.unit, p.x, one.value})
	}
	return kept, errors.Join(err, failed)
}

// onlyOf returns the samples of some metrics.
func onlyOf(samples []sample, metrics ...string) []sample {
	return slices.DeleteFunc(samples, func(s sample) bool { return !slices.Contains(metrics, s.metric) })
}

func (r *run) tlsSample(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) {
	samples, err := r.client(ctx, d, s, "tls-load", []any{"for", d, "fresh", p.x == tlsHandshakes})
	return allAt(p.x, samples), err
}

// allAt gives samples the parameter x, in place of the client's.
func allAt(x float64, samples []sample) []sample {
	for i := range samples {
		samples[i].x = x
	}
	return samples
}

var proxyExperiment = experiment{
	name: "proxy",
	doc:  "small responses of a backend through reverse proxies",
	parts: []part{{
		points:   append(pointsAt("depth", 1), pointsAt("conns", 1, 8)...),
		servers:  (*run).proxies,
		sample:   (*run).loadSample,
		length:   2 * time.Second,
		reserved: tracedBudget,
		beside: func(r *run, servers []*server) error {
			return r.prepare(tracedBudget, func() error { r.countSystemCalls(servers); return nil })
		},
	}},
	notes: []string{
		"net-http: httputil.ReverseProxy with as many connections at rest as there are clients; nginx: proxy_pass with keepalive in upstream",
		fmt.Sprintf("proxies on core %d, client and backend on core %d, which is the busier one: compare cpu-per-request, rps is that of the backend", serverCore, clientCore),
	},
	charts: []report.Chart{{Title: "CPU time of a proxy per request", Metric: "cpu-per-request", XLabel: "pipelining depth", Bars: true}},
}

// proxies are those before a backend, which ends with the run.
func (r *run) proxies() []launcher {
	backend, err := r.startBeside("backend", r.ownClient("knot", "-patient"))
	if err != nil {
		r.fail("knot", "backend", err)
		return nil
	}
	r.ends = append(r.ends, backend.close)
	own := []launcher{r.own("knot", nil, "knot", "-proxy", backend.addr), r.own("net-http", nil, "reverse-proxy", backend.addr)}
	return append(own, r.nginx("nginx", nginxSite{
		http:   "upstream backend { server " + backend.addr + "; keepalive 64; keepalive_requests 1000000000; keepalive_timeout 1h; }",
		server: nginxProxy,
	}.config)...)
}

const nginxProxy = `location / {
			proxy_pass http://backend;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $host;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_set_header X-Forwarded-Proto $scheme;
			proxy_set_header X-Forwarded-Host $host;
			proxy_set_header X-Real-IP $remote_addr;
		}`
