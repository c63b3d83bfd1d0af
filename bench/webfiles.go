package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// 3.2 GB of files, and a sixteenth of that as memory.
const (
	coldFolders = 640
	coldLimit   = 200_000_000 // bytes
)

// nginxFiles sends the files below root; option is another line of the configuration. Without multi_accept nginx accepts one
// new client in each iteration of its loop, in which it serves hundreds of others.
func nginxFiles(root, option string) nginxSite {
	return nginxSite{events: " multi_accept on;", http: "error_log error.log crit;\nsendfile on;\n" + option, server: "root " + root + ";"}
}

// cold is an experiment whose files are mostly not in memory.
type cold struct {
	*run
	tree  *webTree
	root  string
	limit int64 // bytes of the memory group
	more  []any // flags of the client besides, as for flagPairs
}

// newCold writes a tree. It is nil, and that is noted, where no memory group can be made.
func newCold(r *run, experiment string, tree *webTree, limit int64, more ...any) (*cold, error) {
	c := &cold{run: r, tree: tree, root: filepath.Join(r.scratch, "tree"), limit: limit, more: more}
	err := r.prepare(writing(tree.bytes()), func() error {
		if err := proc.CanHave(proc.NewMemoryGroup(limit)); err != nil {
			r.skip(experiment, err)
			c = nil
			return nil
		}
		fmt.Fprintf(r.progress, "writing %d files, %d MB, to %s\n", tree.files(), tree.bytes()/1e6, c.root)
		return tree.write(r.ctx, c.root)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// files is a worker that serves the files.
func (c *cold) files(system string, env []string, args ...string) launcher {
	return c.own(system, env, append([]string{"files", "-root", c.root}, args...)...)
}

// nginxFiles sends the files with an option of its configuration.
func (c *cold) nginxFiles(system, option string) []launcher {
	return c.nginx(system, nginxFiles(c.root, option).config)
}

// contenders start a server for each sample, with no file in memory.
func (c *cold) contenders(launchers []launcher) (all []contender) {
	for _, l := range launchers {
		all = append(all, contender{system: l.system, lacks: webMost[l.system], sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
			if err := c.tree.uncache(c.root); err != nil {
				return nil, err
			}
			return c.sample(ctx, l, int(p.x), c.round+1, d)
		}})
	}
	return slower(time.Second, all)
}

// sample starts a server in a memory group of its own and has clients ask it.
func (c *cold) sample(ctx context.Context, l launcher, clients, seed int, d time.Duration) (samples []sample, err error) {
	s, err := l.start(ctx, needs{memory: c.limit})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	samples, err = c.client(ctx, d, s, "fetch", append([]any{"conns", clients, "folders", c.tree.folders, "seed", seed, "warm", d / 3, "for", d - d/3}, c.more...))
	if err != nil {
		if s.killedBy(syscall.SIGKILL, err) {
			err = fmt.Errorf("the kernel killed the server, which wanted more than its %d MB: %w", c.limit/1e6, err)
		}
		return nil, err
	}
	used, err := s.memory.Bytes()
	return append(samples, sample{"memory", "MB", float64(clients), float64(used) / 1e6}), err
}

// The clients of web: five requests on a connection, with a pause after each.
const (
	perConnection   = 5
	betweenRequests = 20 * time.Millisecond
)

// webExperiment has few to very many clients fetch files. A sixteenth of the files fits in memory (Capriccio,
// Figure 9; Aspen, Figures 8 and 9).
var webExperiment = experiment{
	name: "web",
	doc:  "files for 16 to 16,384 clients, a sixteenth of them in memory (Capriccio, Figure 9; Aspen, Figures 8 and 9)",
	prepare: func(r *run, e *experiment) error {
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

// lighttpdConfig is for one process with one thread, which keeps connections as long as a run takes.
const lighttpdConfig = `server.document-root = "%[3]s"
server.bind = "%[1]s"
server.port = %[2]s
server.errorlog = "%[4]s/error.log"
server.max-fds = 20000
server.max-connections = 9900
server.max-keep-alive-requests = 1000000
server.max-keep-alive-idle = 3600
server.listen-backlog = 4096
mimetype.assign = ( "" => "text/plain" )
`

// Apache's event model: a thread waits for all idle connections, others serve requests. One
// process, as all others have.
const apacheConfig = `ServerRoot %[3]s
ServerName bench
PidFile %[3]s/apache.pid
DefaultRuntimeDir %[3]s
Mutex posixsem
Listen %[1]s
ListenBacklog 4096
%[4]s
LoadModule mpm_event_module %[5]s/mod_mpm_event.so
LoadModule authz_core_module %[5]s/mod_authz_core.so
ErrorLog %[3]s/error.log
LogLevel crit
ServerLimit 1
StartServers 1
ThreadLimit 512
ThreadsPerChild 512
MaxRequestWorkers 512
AsyncRequestWorkerFactor 20
MaxKeepAliveRequests 0
KeepAlive On
KeepAliveTimeout 3600
Timeout 3600
DocumentRoot %[2]s
<Directory %[2]s>
Require all granted
</Directory>
`

// apacheModules is where Debian's package has them.
const apacheModules = "/usr/lib/apache2/modules"

// webMost are the reasons why servers that take fewer connections than a process can have skip points.
var webMost = map[string]func(point) string{
	"lighttpd": without("of more than 9,900 clients: takes half as many connections as descriptors (server.max-connections)",
		func(p point) bool { return p.x > 9900 }),
	"apache-event": without("of more than 10,000 clients: one process of 512 threads takes 10,752 connections (AsyncRequestWorkerFactor), more take more memory than there is",
		func(p point) bool { return p.x > 10_000 }),
}

// webPeers are the servers of files besides nginx that this machine has or can build; the others
// are skipped with the reason.
func (c *cold) webPeers() []launcher {
	found := append(c.peer("fasthttp", "-root", c.root), c.lighttpd(c.root, "")...)
	path, err := c.find("apache2")
	if err == nil && !c.planning() {
		_, err = os.Stat(apacheModules + "/mod_mpm_event.so")
	}
	if err != nil {
		c.skip("apache-event", err)
		return found
	}
	return append(found, launcher{"apache-event", func(ctx context.Context, n needs) (*server, error) {
		user := ""
		if os.Geteuid() == 0 { // as which it serves nothing
			user = "User www-data\nGroup www-data"
			if err := os.Chmod(c.scratch, 0o755); err != nil {
				return nil, err
			}
		}
		return startConfigured(ctx, n, configured{system: "apache-event", path: path, configure: func(dir, addr string) string {
			return fmt.Sprintf(apacheConfig, addr, c.root, dir, user, apacheModules)
		}, args: func(_, config string) []string { return []string{"-X", "-f", config} }}, c.scratch)
	}})
}
