package main

import (
	"context"
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// runProxy loads reverse proxies with small requests, which one backend on the client's core answers.
func runProxy(r *run) error {
	backend, err := startCommand(r.ctx, "backend", proc.Command{
		Path: r.self, Core: clientCore, Args: []string{workerCommand, "knot"}, Env: []string{"GOMAXPROCS=1"},
	})
	if err != nil {
		return err
	}
	defer backend.child.Close()
	launchers := []launcher{
		{"knot", func(ctx context.Context) (*server, error) {
			return startServer(ctx, "knot", r.self, workerCommand, "knot", "-proxy", backend.addr)
		}},
		{"net-http", func(ctx context.Context) (*server, error) {
			return startServer(ctx, "net-http", r.self, workerCommand, "reverse-proxy", backend.addr)
		}},
	}
	if path, err := findNginx(); err != nil {
		r.skip("nginx", err)
	} else {
		launchers = append(launchers, launcher{"nginx", func(ctx context.Context) (*server, error) {
			return startNginxWith(ctx, path, r.scratch, func(dir, addr string) string { return fmt.Sprintf(nginxProxy, dir, addr, backend.addr) })
		}})
	}
	servers, err := r.startAll(launchers)
	if err != nil {
		return err
	}
	defer closeAll(servers)
	contenders := make([]contender, len(servers))
	for i, s := range servers {
		contenders[i] = contender{system: s.system, sample: r.loadSample(s)}
	}
	r.reserved = tracedBudget
	if err := r.measure([]point{{metric: "depth", x: 1}, {metric: "conns", x: 1}, {metric: "conns", x: 8}}, contenders, 2*time.Second); err != nil {
		return err
	}
	r.countSystemCalls(servers)
	r.note("net-http: httputil.ReverseProxy with as many connections at rest as there are clients; nginx: proxy_pass with keepalive in upstream")
	r.note("proxies on core %d, client and backend on core %d, which is the busier one: compare cpu-per-request, rps is that of the backend", serverCore, clientCore)
	r.charts = []report.Chart{{Title: "CPU time of a proxy per request", Metric: "cpu-per-request", XLabel: "pipelining depth", Bars: true}}
	return nil
}

// nginxProxy is nginxConfig with a backend.
const nginxProxy = nginxHead + `	upstream backend {
		server %[3]s;
		keepalive 64;
		keepalive_requests 1000000000;
		keepalive_timeout 1h;
	}
	server {
		listen %[2]s backlog=4096 reuseport;
		location / {
			proxy_pass http://backend;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $host;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_set_header X-Forwarded-Proto $scheme;
			proxy_set_header X-Forwarded-Host $host;
		}
	}
}
`
