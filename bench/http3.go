package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	http3Conns   = 4
	http3Streams = 4 // requests under way on each
)

// http3Experiment compares what a file costs over HTTP/3: all three servers have QUIC and HTTP/3 from quic-go.
var http3Experiment = experiment{
	name:    "http3",
	doc:     "files of 1 KB and 100 KB by HTTP/3",
	prepare: func(r *run, _ *experiment) error { return r.prepare(0, r.writeServedWithKey) },
	parts: []part{{
		points:  pointsAt("file", 1, 100),
		servers: (*run).http3Servers,
		sample:  (*run).http3Sample,
		length:  4 * time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x: KB of the file that all ask for, in memory; %d connections with %d requests under way each, of quic-go's client; server on core %d, client on core %d", http3Conns, http3Streams, serverCore, clientCore),
		"knot: command knot with http3 = true; quic-go: its http3.Server with http.FileServer; caddy: its file_server; all three speak QUIC by quic-go, knot and quic-go by the same version",
		"the client is busier than the servers: compare cpu-per-request",
	},
	charts: []report.Chart{{Title: "CPU time of a server per request", Metric: "cpu-per-request", XLabel: "KB", Bars: true}},
}

func (r *run) writeServedWithKey() error {
	if err := r.writeServed(); err != nil {
		return err
	}
	return writeKey(r.keyFile())
}

// http3Servers are before the files of writeServed.
func (r *run) http3Servers() (found []launcher) {
	root, pem := r.servedRoot(), r.keyFile()
	if path, err := r.buildCommand("cmd/knot"); err != nil {
		r.skip("knot", err)
	} else {
		found = append(found, r.builtServer("knot", path, func(_, addr string) string {
			return fmt.Sprintf("tls-cert = %[1]q\ntls-key = %[1]q\n[[listen]]\naddr = %[2]q\nhttp3 = true\n[[site]]\nroot = %[3]q\n", pem, addr, root)
		}, "-quiet", "-config"))
	}
	found = append(found, r.peer("quic-go", "-root", root, "-tls", pem)...)
	caddy := realServers[0]
	if !r.wants(caddy.system) {
		return found
	}
	path, err := caddy.system, error(nil)
	if !r.planning() {
		path, err = r.buildPublished(caddy.pkg, caddy.version)
	}
	if err != nil {
		r.skip(caddy.system, err)
		return found
	}
	return append(found, r.builtServer(caddy.system, path, func(dir, addr string) string {
		_, port, _ := net.SplitHostPort(addr)
		return fmt.Sprintf(caddyHTTP3, dir, port, pem, root)
	}, "run", "--adapter", "caddyfile", "--config"))
}

// caddyHTTP3 serves files over HTTP/3, beside HTTPS at the same port.
const caddyHTTP3 = `{
	admin off
	auto_https off
	persist_config off
	default_sni localhost
	storage file_system %[1]s
}
https://:%[2]s {
	tls %[3]s %[3]s
	root * %[4]s
	file_server
}
`

// builtServer is a server that was built here; the last of its arguments is its configuration file.
func (r *run) builtServer(system, path string, configure func(dir, addr string) string, args ...string) launcher {
	return launcher{system, func(ctx context.Context, n needs) (*server, error) {
		return startConfigured(ctx, n, configured{system: system, path: path, configure: configure,
			args: func(_, config string) []string { return append(args[:len(args):len(args)], config) }}, r.scratch)
	}}
}

func (r *run) http3Sample(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) {
	client, err := r.buildPeer("http3-load")
	if err != nil {
		return nil, err
	}
	kb := int(p.x)
	samples, err := samplesOf(ctx, d, proc.Command{Path: client, Core: clientCore, Args: flagPairs(
		"url", fmt.Sprintf("https://%s/%dk.txt", s.addr, kb), "size", kb<<10, "pid", s.child.PID(), "conns", http3Conns, "streams", http3Streams, "warm", d/4, "for", d-d/4)})
	return allAt(p.x, samples), err
}
