package main

import (
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// The clients of web: five requests on a connection, with a pause after each.
const (
	perConnection   = 5
	betweenRequests = 20 * time.Millisecond
)

// webExperiment has few to very many clients fetch files of which a sixteenth fits in memory (Capriccio,
// Figure 9; Aspen, Figures 8 and 9).
var webExperiment = experiment{
	name: "web",
	doc:  "files for 16 to 16,384 clients, a sixteenth of them in memory (Capriccio, Figure 9; Aspen, Figures 8 and 9)",
	describe: func(r *run, e *experiment) error {
		folders, limit, length := coldFolders, int64(coldLimit), 4*time.Second
		if r.quick {
			folders, limit, length = 128, 100_000_000, 1500*time.Millisecond
		}
		c, err := newCold(r, "web", newWebTree(folders), limit, "per-conn", perConnection, "pause", betweenRequests)
		if c == nil {
			return err
		}
		e.parts = []part{{
			points:  pointsAt("web", 16, 256, 1024, 9000, 16384),
			quick:   pointsAt("web", 16, 1024),
			systems: func(r *run) []contender { return c.contenders(c.webServers()) },
			length:  length,
			once:    true, // of three rounds each sample would be over before a server has warmed up
		}}
		e.notes = []string{
			fmt.Sprintf("x: clients, each with %d requests on a connection, %v after each response; latency of the first one counts from before the connection", perConnection, betweenRequests),
			fmt.Sprintf("%d files of %d MB in all, drawn as in SPECweb99's static part; server and pages may have %d MB; nothing is in memory at first; a third of each sample passes before measuring",
				c.tree.files(), c.tree.bytes()/1e6, limit/1e6),
			"knot-no-cache: without the contents of files in memory of its own; knot-direct: past the page cache (O_DIRECT), with half of the memory as a cache of its own; knot-net-http: net/http's own handler, unmodified, on Knot; capriccio-flow: examples/flowweb, as Aspen's server without a cache; nginx: one process with aio threads; lighttpd: one thread; apache-event: one process of 512 threads",
		}
		return nil
	},
	charts: []report.Chart{
		{Title: "Bandwidth by clients", Metric: "throughput", XLabel: "clients"},
		{Title: "Requests", Metric: "rps", XLabel: "clients"},
		{Title: "Median of latency", Metric: "p50", XLabel: "clients", LogY: true},
		{Title: "99th percentile of latency", Metric: "p99", XLabel: "clients", LogY: true},
	},
}

func (c *cold) webServers() []launcher {
	servers := []launcher{
		c.files("knot", nil, "-kind", "knot"), c.files("knot-no-cache", nil, "-kind", "knot", "-cache", "-1"),
		c.files("knot-direct", []string{waitsEnv}, "-kind", "direct", "-cache", fmt.Sprint(c.limit/2), "-memory", fmt.Sprint(c.limit*9/10)),
		c.files("knot-net-http", nil, "-kind", "adapted"), c.files("net-http", nil, "-kind", "net-http"),
	}
	servers = append(servers, c.webPeers()...)
	if path, err := c.buildCommand("examples/flowweb"); err != nil {
		c.skip("capriccio-flow", err)
	} else {
		servers = append(servers, programServer("capriccio-flow", nil, path, "-addr", "127.0.0.1:0", "-root", c.root))
	}
	return append(servers, c.nginxFiles("nginx", "aio threads;")...)
}
