package main

import (
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// runProxy loads reverse proxies before one backend, which is on the client's core, with small requests.
func runProxy(r *run) error {
	backend, err := r.startBeside("backend", r.ownClient("knot", "-patient"))
	if err != nil {
		return err
	}
	defer backend.close()
	launchers := []launcher{r.own("knot", nil, "knot", "-proxy", backend.addr), r.own("net-http", nil, "reverse-proxy", backend.addr)}
	launchers = append(launchers, r.nginx("nginx", func(dir, addr string) string { return fmt.Sprintf(nginxProxy, dir, addr, backend.addr) })...)
	servers := r.startAll(launchers)
	defer closeAll(servers)
	r.reserved = tracedBudget
	r.measure([]point{{metric: "depth", x: 1}, {metric: "conns", x: 1}, {metric: "conns", x: 8}}, serving(servers, r.loadSample), 2*time.Second)
	r.prepare(tracedBudget, func() error { r.countSystemCalls(servers); return nil })
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
