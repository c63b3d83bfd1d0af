package main

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// responders is how many processes make pages, as the paper has PHP's.
const responders = 2

// supportShape is what a run of web-support does.
type supportShape struct {
	alphas   []float64 // popularity of a folder: 1 / rank^alpha
	folders  int
	limit    int64         // bytes of memory for server and pages
	trial    time.Duration // of which a third passes before measuring
	patience time.Duration // that the 99th percentile has to keep
	begin    int           // sessions tried first
	most     int
	exact    int // the search ends at a 1/exact of the sessions
}

// SPECweb2005's patience is 4 s (TIME_TOLERABLE). As sessions think for 1 s, a server that keeps 1 s differs by some
// percent of its sessions from one that keeps 4 s, and shows it in trials of seconds.
var (
	supportFull  = supportShape{[]float64{0.4, 1.2, 2}, coldFolders, coldLimit, 5 * time.Second, time.Second, 500, 8000, 10}
	supportQuick = supportShape{[]float64{1.2}, 64, 100_000_000, 1500 * time.Millisecond, 500 * time.Millisecond, 500, 4000, 20}
)

// webSupportExperiment finds how many sessions of a site with dynamic pages a server can serve in time (Aspen, Figure 7).
var webSupportExperiment = experiment{
	name: "web-support",
	doc:  "the most sessions of a site with files and FastCGI that are served in time (Aspen, Figure 7)",
	describe: func(r *run, e *experiment) error {
		shape := choose(r.quick, supportQuick, supportFull)
		c, err := newCold(r, "web-support", newWebTree(shape.folders), shape.limit)
		if c == nil {
			return err
		}
		var pages []string
		for range responders {
			s, err := r.startBeside("responder", onCore(serverCore, nil, r.self, workerCommand, "fcgi"))
			if err != nil {
				return err
			}
			r.ends = append(r.ends, s.close)
			pages = append(pages, s.addr)
		}
		e.parts = []part{searching(shape.alphas, shape.trial+time.Second, func() []launcher { return c.supportServers(pages) },
			func(l launcher, alpha float64) ([]sample, error) { return c.mostSessions(l, alpha, shape) })}
		e.notes = []string{
			fmt.Sprintf("sessions: the most of which 99 %% of the requests are answered within %v, found by bisection to %d %%; x: exponent of Zipf's law for the folders (SPECweb2005: 1.2)", shape.patience, 100/shape.exact),
			fmt.Sprintf("a session fetches a page made by FastCGI (12 KB, for which 2 MB are hashed), five files of %d MB in all, then thinks for 1 s on average; server and its pages may have %d MB", c.tree.bytes()/1e6, shape.limit/1e6),
			fmt.Sprintf("%d responders of net/http/fcgi, server and responders on core %d, clients on core %d; cpu-per-request is the server's alone", responders, serverCore, clientCore),
			"unlike SPECweb2005 the order of a session's pages is left to chance, sizes are SPECweb99's, and lines are not slow; Apache is not measured",
		}
		return nil
	},
	charts: []report.Chart{
		{Title: "Sessions served in time", Metric: "sessions", XLabel: "exponent of popularity", Bars: true},
		{Title: "CPU time per request on the server", Metric: "cpu-per-request", XLabel: "exponent of popularity", Bars: true},
	},
}

// supportServers are the servers before the responders.
func (c *cold) supportServers(pages []string) []launcher {
	found := []launcher{c.files("knot", []string{capriccio.EnvGraph + "=on", waitsEnv}, "-kind", "knot", "-fastcgi", strings.Join(pages, ","))}
	found = append(found, c.nginx("nginx", func(dir, addr string) string {
		return fmt.Sprintf(nginxSupport, dir, addr, c.root, strings.Join(pages, "; server "))
	})...)
	responders := "server.modules = ( \"mod_fastcgi\" )\nfastcgi.server = ( \".php\" => (\n"
	for _, page := range pages {
		host, port, _ := net.SplitHostPort(page)
		responders += fmt.Sprintf("( \"host\" => \"%s\", \"port\" => %s, \"check-local\" => \"disable\" ),\n", host, port)
	}
	return append(found, c.lighttpd(c.root, responders+") )\n")...)
}

// nginxSupport is nginxFilesConfig with pages by FastCGI.
const nginxSupport = nginxHead + `	default_type text/plain;
	sendfile on;
	aio threads;
	upstream pages { server %[4]s; keepalive 64; keepalive_requests 1000000000; }
	server {
		listen %[2]s backlog=4096 reuseport;
		root %[3]s;
		location ~ \.php$ {
			fastcgi_pass pages;
			fastcgi_keep_conn on;
			fastcgi_param REQUEST_METHOD $request_method;
			fastcgi_param REQUEST_URI $request_uri;
			fastcgi_param SERVER_PROTOCOL $server_protocol;
			fastcgi_param SCRIPT_NAME $fastcgi_script_name;
			fastcgi_param HTTP_HOST $host;
		}
	}
}
`

// mostSessions finds the most sessions that one server can serve in time.
func (c *cold) mostSessions(l launcher, alpha float64, shape supportShape) ([]sample, error) {
	c.more = []any{"support", alpha}
	trials := 0
	return c.mostOf(l.system, point{metric: "sessions", x: alpha}, shape.begin, shape.most, shape.exact, func(n int) ([]sample, error) {
		if err := c.tree.uncache(c.root); err != nil {
			return nil, err
		}
		trials++
		samples, err := c.sample(c.ctx, l.start, n, 100*c.round+trials, shape.trial)
		if err != nil {
			return nil, err
		}
		p99 := valuesOf(samples)["p99"]
		fmt.Fprintf(c.progress, "%s, popularity %v: %d sessions, 99th percentile %.0f ms\n", l.system, alpha, n, p99)
		if p99 > float64(shape.patience.Milliseconds()) {
			return nil, nil
		}
		return allAt(alpha, samples), nil
	})
}
