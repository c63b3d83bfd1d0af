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

// nginxWarmFiles is nginx as an operator sets it up for files: it keeps them open, and sends full packets.
const nginxWarmFiles = nginxHead + `	default_type text/plain;
	sendfile on;
	tcp_nopush on;
	open_file_cache max=2000 inactive=60s;
	server {
		listen %[2]s backlog=4096 reuseport%[4]s;
		root %[3]s;
	}
}
`

// fileServers are Knot and its peers before the files below root, with TLS if pem is the file of its key.
func (r *run) fileServers(root, pem string) []launcher {
	var found []launcher
	for _, kind := range []string{"knot", "net-http"} {
		found = append(found, r.own(kind, nil, "files", "-kind", kind, "-root", root, "-tls", pem))
	}
	forNginx, forLighttpd := "", ""
	if pem != "" {
		forNginx = fmt.Sprintf(" ssl; ssl_protocols TLSv1.3; ssl_certificate %[1]s; ssl_certificate_key %[1]s", pem)
		forLighttpd = fmt.Sprintf("server.modules = ( \"mod_openssl\" )\nssl.engine = \"enable\"\nssl.pemfile = \"%s\"\n", pem)
	}
	found = append(found, r.nginx("nginx", func(dir, addr string) string { return fmt.Sprintf(nginxWarmFiles, dir, addr, root, forNginx) })...)
	if pem == "" {
		found = append(found, r.peer("fasthttp", "-root", root)...)
	}
	return append(found, r.lighttpd(root, forLighttpd)...)
}

// mixFiles is how many files the mix has, of 0.6 to 32 KB, the small ones more often.
const mixFiles = 500

// writeServed writes the files of the experiments, and returns by KB, 0 being the mix, what the worker fetch
// is to be told of them.
func writeServed(root string) (map[int][]string, error) {
	asked, files := map[int][]string{}, map[string][]byte{}
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
	return asked, writeAll(root, files)
}

var servedKB = []int{1, 16, 100, 10 << 10}

// runFiles measures files that are in memory, on connections that are kept alive.
func runFiles(r *run) error {
	root := filepath.Join(r.scratch, "root")
	var asked map[int][]string
	err := r.prepare(0, func() (err error) {
		asked, err = writeServed(root)
		return errors.Join(err, os.Chmod(r.scratch, 0o755))
	})
	if err != nil {
		return err
	}
	points := []point{{metric: "mix"}}
	for _, kb := range servedKB {
		points = append(points, point{metric: "file", x: float64(kb)})
	}
	r.compareServers(r.fileServers(root, ""), points, func(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) {
		return samplesOf(ctx, d, r.ownClient(slices.Concat([]string{"fetch"}, flagPairs("addr", s.addr, "pid", s.child.PID(),
			"conns", choose(p.x > 1000, 8, helloConns), "warm", d/5, "for", d-d/5), asked[int(p.x)])...))
	})
	r.note("x: KB of the file that all ask for; 0: one of %d of 0.6 to 32 KB; %d connections, 8 for the largest file; all in memory", mixFiles, helloConns)
	r.note("nginx: sendfile, tcp_nopush, open_file_cache; all others as they come; server on core %d, client on core %d", serverCore, clientCore)
	if control, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control"); err == nil {
		r.note("congestion control: %s; bbr paces, and then the largest file costs up to three times as much, whenever it takes the connection for slow", strings.TrimSpace(string(control)))
	}
	r.charts = []report.Chart{{Title: "CPU time of a server per request", Metric: "cpu-per-request", XLabel: "KB", Bars: true}}
	return nil
}

// compareServers starts the servers and measures them at points, whose parameters take the place of the client's.
func (r *run) compareServers(launchers []launcher, points []point, client serverSampler) {
	launchers = slices.DeleteFunc(launchers, func(l launcher) bool { return !r.wants(l.system) })
	servers := r.startAll(launchers)
	defer closeAll(servers)
	r.measure(points, serving(servers, func(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) {
		samples, err := client(ctx, s, p, d)
		for i := range samples {
			samples[i].x = p.x
		}
		return samples, err
	}), 2*time.Second)
}

// The loads of the experiment tls.
const (
	tlsKeptAlive  = 0
	tlsHandshakes = 1
	tlsIdleConns  = 1000
)

// runTLS measures requests, handshakes and idle connections of TLS 1.3.
func runTLS(r *run) error {
	root, key := filepath.Join(r.scratch, "root"), filepath.Join(r.scratch, "key.pem")
	err := r.prepare(0, func() error {
		_, err := writeServed(root)
		return errors.Join(err, os.Chmod(r.scratch, 0o755), writeKey(key))
	})
	if err != nil {
		return err
	}
	launchers := r.fileServers(root, key)
	r.reserved = 12 * time.Second
	r.compareServers(launchers, []point{{metric: "kept-alive", x: tlsKeptAlive}, {metric: "handshakes", x: tlsHandshakes}},
		func(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) {
			return samplesOf(ctx, d, r.ownClient(append([]string{"tls-load"}, flagPairs("addr", s.addr, "pid", s.child.PID(), "for", d, "fresh", p.x == tlsHandshakes)...)...))
		})
	r.reserved = 0
	rounds := r.asked
	if r.quick {
		r.asked = 1
	}
	r.measure([]point{{metric: "bytes-per-conn", x: tlsIdleConns}}, slower(3*time.Second, starting(launchers, r.idleTLS)), time.Second)
	r.asked = rounds
	r.note("x: %d a file of 1 KB on 16 connections that are kept alive, %d on a new connection each time, without tickets (P-256, TLS 1.3); %d idle connections", tlsKeptAlive, tlsHandshakes, tlsIdleConns)
	r.note("the client is crypto/tls on core %d, and busier than most servers: compare cpu-per-request; it offers X25519 only, "+
		"as not every OpenSSL has X25519MLKEM768, which Go's servers would take", clientCore)
	r.charts = []report.Chart{{Title: "CPU time of a server per request", Metric: "cpu-per-request", XLabel: "load", Bars: true}}
	return nil
}

// idleTLS measures what connections hold that have made one request.
func (r *run) idleTLS(ctx context.Context, s *server, p point, settle time.Duration) ([]sample, error) {
	before, _, err := r.holding(ctx, s, 50, settle, "tls-hold")
	if err != nil {
		return nil, err
	}
	after, _, err := r.holding(ctx, s, int(p.x), settle, "tls-hold")
	return []sample{{"bytes-per-conn", "B", p.x, float64(after-before) / (p.x - 50)}}, err
}

// writeKey writes a self-signed certificate and its key to a file.
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

// runHTTP2 has h2load ask for a small response by HTTP/2 without TLS.
func runHTTP2(r *run) error {
	tool, err := r.find("h2load")
	if err != nil {
		r.skip("http2", err)
		return nil
	}
	launchers := append([]launcher{r.own("knot", nil, "knot"), r.own("knot-http", nil, "knot", "-http")}, r.peer("net-http")...)
	launchers = append(launchers, r.nginx("nginx", func(dir, addr string) string {
		return strings.Replace(fmt.Sprintf(nginxConfig, dir, addr), "reuseport;", "reuseport http2;", 1)
	})...)
	const conns = 8
	r.compareServers(launchers, []point{{metric: "streams", x: 1}, {metric: "streams", x: 16}},
		func(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) {
			used := cpuSince(s.child.PID())
			lines, err := linesOf(ctx, d, proc.Command{Path: tool, Core: clientCore, Args: []string{
				"-t1", "-c" + strconv.Itoa(conns), "-m" + strconv.Itoa(int(p.x)), "-D", fmt.Sprint(d.Milliseconds(), "ms"), "http://" + s.addr + "/"}})
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
		})
	r.note("x: requests under way on each of %d connections of h2load; HTTP/2 without TLS (prior knowledge); server on core %d, client on core %d", conns, serverCore, clientCore)
	r.note("knot-http and net-http have the same handler of net/http")
	r.charts = []report.Chart{{Title: "Requests", Metric: "rps", XLabel: "streams", Bars: true}, {Title: "CPU time per request", Metric: "cpu-per-request", XLabel: "streams", Bars: true}}
	return nil
}
