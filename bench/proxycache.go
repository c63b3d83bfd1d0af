package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// proxyCacheExperiment compares what a response costs that a proxy has kept.
var proxyCacheExperiment = experiment{
	name:    "proxy-cache",
	doc:     "responses of a backend that reverse proxies have kept",
	prepare: func(r *run, _ *experiment) error { return r.prepare(0, r.writeServed) },
	parts: []part{{
		points:  pointsAt("file", 1, 16, 100),
		servers: (*run).caches,
		sample:  (*run).fetchSample,
		length:  2 * time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x: KB of the response that all ask for; %d connections; each is fetched from the backend once, and a hit from then on", helloConns),
		"knot: command knot with [[site.cache]], in memory; nginx: proxy_cache, on a disk that is in memory, with sendfile and open_file_cache",
		fmt.Sprintf("proxies on core %d, client and backend on core %d", serverCore, clientCore),
	},
	charts: []report.Chart{{Title: "CPU time of a proxy per hit", Metric: "cpu-per-request", XLabel: "KB", Bars: true}},
}

// caches are proxies that keep responses, before a backend with the files of writeServed, which ends with the run.
func (r *run) caches() []launcher {
	backend, err := r.startBeside("backend", r.ownClient("files", "-kind", "knot", "-root", r.servedRoot()))
	if err != nil {
		r.fail("knot", "backend", err)
		return nil
	}
	r.ends = append(r.ends, backend.close)
	var found []launcher
	if path, err := r.buildCommand("cmd/knot"); err != nil {
		r.skip("knot", err)
	} else {
		found = append(found, r.builtServer("knot", path, func(_, addr string) string {
			return fmt.Sprintf("addr = %q\n[[site]]\n[[site.cache]]\nlifetimes = { 200 = '1h' }\n[[site.proxy]]\nto = ['http://%s']\n", addr, backend.addr)
		}, "-quiet", "-config"))
	}
	return append(found, r.nginx("nginx", func(dir, addr string) string {
		return strings.ReplaceAll(nginxSite{
			http: "sendfile on; open_file_cache max=2000 inactive=60s; proxy_cache_path DIR/kept keys_zone=kept:16m inactive=1h;\n" +
				"upstream backend { server " + backend.addr + "; keepalive 64; }",
			server: strings.Replace(nginxProxy, "proxy_pass", "proxy_cache kept;\n\t\t\tproxy_cache_valid 200 1h;\n\t\t\tproxy_cache_lock on;\n\t\t\tproxy_pass", 1),
		}.config(dir, addr), "DIR", dir)
	})...)
}
