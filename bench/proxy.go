package main

import (
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// proxyExperiment loads reverse proxies before one backend, which is on the client's core, with small requests.
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
	return append(own, r.nginx("nginx", func(dir, addr string) string { return fmt.Sprintf(nginxProxy, dir, addr, backend.addr) })...)
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
