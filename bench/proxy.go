package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// startProxies starts reverse proxies before one backend on the client's core. The caller closes all.
func (r *run) startProxies() (backend *server, proxies []*server, err error) {
	backend, err = startCommand(r.ctx, "backend", r.ownClient("knot", "-patient"))
	if err != nil {
		return nil, nil, err
	}
	launchers := []launcher{r.own("knot", nil, "knot", "-proxy", backend.addr), r.own("net-http", nil, "reverse-proxy", backend.addr)}
	launchers = append(launchers, r.nginx("nginx", func(dir, addr string) string { return fmt.Sprintf(nginxProxy, dir, addr, backend.addr) })...)
	if proxies, err = r.startAll(launchers); err != nil {
		backend.child.Close()
	}
	return backend, proxies, err
}

// runProxy loads reverse proxies with small requests.
func runProxy(r *run) error {
	backend, servers, err := r.startProxies()
	if err != nil {
		return err
	}
	defer closeAll(append(servers, backend))
	r.reserved = tracedBudget
	if err := r.measure([]point{{metric: "depth", x: 1}, {metric: "conns", x: 1}, {metric: "conns", x: 8}}, serving(servers, r.loadSample), 2*time.Second); err != nil {
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

// slowClients wait for the slow route while others ask.
const slowClients = 256

// runSlowBackend compares what 16 clients of a proxy get while nobody, and while many others, wait for a route of
// the same backend that is slow.
func runSlowBackend(r *run) error {
	backend, servers, err := r.startProxies()
	if err != nil {
		return err
	}
	defer closeAll(append(servers, backend))
	contenders := serving(servers, func(s *server) sampler {
		return func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
			if p.x > 0 {
				waiting, err := proc.Start(r.ownClient("fetch", "-addr", s.addr, "-pid", strconv.Itoa(s.child.PID()),
					"-conns", strconv.Itoa(int(p.x)), "-for", (d + sampleTimeout).String(), slowPath[1:]+"=13"))
				if err != nil {
					return nil, err
				}
				defer waiting.Close()
			}
			samples, err := r.load(ctx, s, 16, 1, slowAnswer, d)
			for i := range samples {
				samples[i].x = p.x
			}
			return samples, err
		}
	})
	err = r.measure([]point{{metric: "slow"}, {metric: "slow", x: slowClients}}, contenders, 2*time.Second)
	r.note("16 clients ask for a small response while x others wait for one that takes the backend %v; latencies are of the 16", slowAnswer)
	r.charts = []report.Chart{{Title: "p99 beside a slow route", Metric: "p99", XLabel: "clients that wait for it", Bars: true}}
	return err
}
