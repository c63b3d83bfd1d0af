package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"golang.org/x/sys/unix"
)

// server is a running server on the server core, with what is there for it alone.
type server struct {
	system string
	child  *proc.Child
	addr   string
	memory *proc.Group   // nil if it is in none
	quota  *proc.Group   // likewise, of CPU
	beside []*proc.Child // that serve with it, or disturb it
	conns  []net.Conn    // that others have opened
	watch  *memoryWatch  // nil if its memory is not watched
	others float64       // what else ran on the server core while it was loaded, %; negative if not known
	dead   bool          // it was killed for the memory that it took

	peak    int64 // bytes that its memory group has used at most, once it has ended
	peakErr error // why that is not known
}

// needs are what a sample asks of its server beside the defaults.
type needs struct {
	env         []string
	prioritized bool
	limit       int64   // of the oracle
	memory      int64   // bytes of a memory cgroup
	watch       int64   // resident bytes beyond which it is killed, where there is no cgroup
	quota       float64 // share of the core, by a CPU cgroup
	addr        string  // to listen on; "": any
	descriptors int     // limit of open descriptors; 0: as it is
	counted     bool    // see chores.NewFlags
}

type launcher struct {
	system string
	start  func(ctx context.Context, n needs) (*server, error)
}

// serverStart is generous: under the race detector on a busy machine a process takes long.
const serverStart = 30 * time.Second

// launchers are ours and the servers that this machine can build or has; the
// others are skipped with the reason.
func (r *run) launchers() []launcher {
	found := []launcher{r.own("knot", nil, "knot"), r.own("knot-http", nil, "knot", "-http")}
	for _, peer := range []string{"net-http", "fasthttp", "gnet"} {
		found = append(found, r.peer(peer)...)
	}
	return append(found, r.nginx("nginx", nginxSite{server: nginxHello}.config)...)
}

// own is a server that is a worker of this program, with more in its environment.
func (r *run) own(system string, env []string, args ...string) launcher {
	return programServer(system, env, r.self, append([]string{workerCommand}, args...)...)
}

// programServer is a server on the server core that prints "listening ADDRESS" when it is ready.
func programServer(system string, env []string, path string, args ...string) launcher {
	return launcher{system, func(ctx context.Context, n needs) (*server, error) {
		return startNeeding(ctx, n, system, onCore(serverCore, env, path, args...), listening)
	}}
}

// peer is a program of the peers' module; there is none where it can't be built.
func (r *run) peer(name string, args ...string) []launcher {
	path, err := r.buildPeer(name)
	if err != nil {
		r.skip(name, err)
		return nil
	}
	return []launcher{programServer(name, nil, path, args...)}
}

// installed is a server that this machine may have; there is none where it has not.
func (r *run) installed(c configured) []launcher {
	l, err := r.found(c)
	if err != nil {
		r.skip(c.path, err)
		return nil
	}
	return []launcher{l}
}

func (r *run) found(c configured) (launcher, error) {
	path, err := r.find(c.path)
	c.path = path
	return launcher{c.system, func(ctx context.Context, n needs) (*server, error) { return startConfigured(ctx, n, c, r.scratch) }}, err
}

// nginx has a configuration for a folder to keep everything in and the address to listen on.
func (r *run) nginx(system string, configure func(dir, addr string) string) []launcher {
	return r.installed(nginxServer(system, configure))
}

func nginxServer(system string, configure func(dir, addr string) string) configured {
	return configured{system: system, path: "nginx", configure: configure, sharesAddress: true,
		args: func(dir, config string) []string { return []string{"-p", dir, "-e", "stderr", "-c", config} }}
}

// lighttpd serves the files below root, with more in its configuration.
func (r *run) lighttpd(root, more string) []launcher {
	return r.installed(configured{system: "lighttpd", path: "lighttpd", configure: func(dir, addr string) string {
		host, port, _ := net.SplitHostPort(addr)
		return fmt.Sprintf(lighttpdConfig, host, port, root, dir) + more
	}, args: func(_, config string) []string { return []string{"-D", "-f", config} }})
}

func startServer(ctx context.Context, system, path string, args ...string) (*server, error) {
	return programServer(system, nil, path, args...).start(ctx, needs{})
}

func (r *run) startBeside(system string, command proc.Command) (s *server, err error) {
	s = &server{system: system}
	err = r.prepare(usualOverhead, func() error { s, err = startCommand(r.ctx, system, command); return err })
	return s, err
}

// target is the server as a client's target, with the processes whose CPU time the client measures.
func (s *server) target(pids ...int) load.Target {
	addr, _ := netip.ParseAddrPort(s.addr) // a client refuses the zero address
	return load.Target{Addr: addr, PIDs: pids, Core: serverCore}
}

// client runs a worker on the client core, which loads the server for about d and measures what clients get. The flags are
// as for flagPairs; what follows them is in more.
func (r *run) client(ctx context.Context, d time.Duration, s *server, worker string, flags []any, more ...string) ([]sample, error) {
	all := flagPairs(append([]any{"addr", s.addr, "pid", s.child.PID()}, flags...)...)
	return samplesOf(ctx, d, r.ownClient(slices.Concat([]string{worker}, all, more)...))
}

// end ends a server, with what is there for it; one of a plan was never started.
func (s *server) end() error {
	for _, c := range s.conns {
		c.Close()
	}
	for _, child := range append(s.beside, s.child) {
		if child != nil {
			child.Close()
		}
	}
	if s.memory != nil {
		s.peak, s.peakErr = s.memory.Peak()
	}
	return errors.Join(s.memory.Close(), s.quota.Close())
}

// close ends a server that is in no group.
func (s *server) close() { _ = s.end() }

// pids are the processes that serve.
func (s *server) pids() []int {
	pids := []int{s.child.PID()}
	for _, child := range s.beside {
		pids = append(pids, child.PID())
	}
	return pids
}

// startCommand starts a server that prints "listening ADDRESS" when it is ready.
func startCommand(ctx context.Context, system string, command proc.Command) (*server, error) {
	return startUntil(ctx, system, command, listening)
}

func listening(ctx context.Context, child *proc.Child) (string, error) {
	line, err := child.Line(ctx)
	addr, ok := strings.CutPrefix(line, "listening ")
	if err == nil && !ok {
		err = fmt.Errorf("said %q, want \"listening ADDRESS\"", line)
	}
	return addr, err
}

// startUntil starts a server and waits until ready returns its address.
func startUntil(ctx context.Context, system string, command proc.Command, ready func(context.Context, *proc.Child) (addr string, err error)) (*server, error) {
	return startNeeding(ctx, needs{}, system, command, ready)
}

// startNeeding is startUntil in the groups, and with the limit, that are needed.
func startNeeding(ctx context.Context, n needs, system string, command proc.Command, ready func(context.Context, *proc.Child) (addr string, err error)) (_ *server, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, serverStart, fmt.Errorf("not ready after %v", serverStart))
	defer cancel()
	s := &server{system: system}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", system, err), s.end())
		}
	}()
	if n.memory > 0 {
		if s.memory, err = proc.NewMemoryGroup(n.memory); err != nil {
			return nil, err
		}
	}
	if n.quota > 0 {
		if s.quota, err = proc.NewCPUGroup(n.quota); err != nil {
			return nil, err
		}
	}
	command.Env, command.Descriptors, command.Groups = slices.Concat(command.Env, n.env), n.descriptors, []*proc.Group{s.memory, s.quota}
	if s.child, err = proc.Start(command); err != nil {
		return nil, err
	}
	s.addr, err = ready(ctx, s.child)
	return s, err
}

func (r *run) buildPeer(name string) (string, error) { return r.build("bench/peers", name) }

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// find is findProgram; in a plan all programs are there, so that it is the same on each machine.
func (r *run) find(name string) (string, error) {
	if r.planning() {
		return name, nil
	}
	return findProgram(name)
}

// findProgram looks on the path, and where Debian has what only root is thought to run.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	if _, there := os.Stat("/usr/sbin/" + name); there == nil {
		return "/usr/sbin/" + name, nil
	}
	return "", err
}

// nginxHead is the beginning of the configurations of nginx here: one process does all, everything is
// in one folder, and connections last as long as a run.
const nginxHead = `daemon off;
master_process off;
worker_processes 1;
pid %[1]s/nginx.pid;
events { worker_connections 19900;%[2]s }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	keepalive_requests 1000000000;
	keepalive_timeout 1h;
`

// nginxSite is what configurations of nginx with one server differ by: more of events, of http, of its listen, and of the server.
type nginxSite struct{ events, http, listen, server string }

func (n nginxSite) config(dir, addr string) string {
	return fmt.Sprintf(nginxHead, dir, n.events) + "\tdefault_type text/plain;\n" + n.http +
		"\n\tserver {\n\t\tlisten " + addr + " backlog=4096 reuseport" + n.listen + ";\n" + n.server + "\n\t}\n}\n"
}

// nginxHello answers every request with the same text.
const nginxHello = `location / { return 200 "Hello, World!"; }`

// configured is a server that reads a file to know what to do.
type configured struct {
	system, path  string
	configure     func(dir, addr string) string
	args          func(dir, config string) []string
	sharesAddress bool // listens with SO_REUSEPORT
}

func startConfigured(ctx context.Context, n needs, c configured, scratch string) (*server, error) {
	dir, err := os.MkdirTemp(scratch, c.system+"-")
	if err != nil {
		return nil, err
	}
	addr, reserved, err := reserveAddress()
	if err != nil {
		return nil, err
	}
	defer reserved.Close()
	config := filepath.Join(dir, c.system+".conf")
	if err := os.WriteFile(config, []byte(c.configure(dir, addr)), 0o666); err != nil {
		return nil, err
	}
	if !c.sharesAddress {
		reserved.Close()
	}
	return startNeeding(ctx, n, c.system, proc.Command{Path: c.path, Args: c.args(dir, config), Core: serverCore}, accepting("tcp", addr))
}

// reserveAddress returns a loopback address that no other program can bind before reserved is closed, except
// a server that listens there with SO_REUSEPORT. The reserving socket does not listen.
func reserveAddress() (addr string, reserved io.Closer, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("socket: %w", err)
	}
	reserved = os.NewFile(uintptr(fd), "reserved")
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: loopback.As4()})
	}
	name, nameless := unix.Getsockname(fd)
	if err = errors.Join(err, nameless); err != nil {
		return "", nil, errors.Join(fmt.Errorf("reserve an address: %w", err), reserved.Close())
	}
	port := name.(*unix.SockaddrInet4).Port
	return netip.AddrPortFrom(loopback, uint16(port)).String(), reserved, nil
}

// accepting waits until something accepts at addr or the child has ended.
func accepting(network, addr string) func(context.Context, *proc.Child) (string, error) {
	return func(ctx context.Context, child *proc.Child) (string, error) {
		var dialer net.Dialer
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			c, err := dialer.DialContext(ctx, network, addr)
			if err == nil {
				return addr, c.Close()
			}
			select {
			case <-tick.C:
			case <-child.Ended():
				return "", errors.Join(errors.New("ended at once"), child.Wait(ctx))
			case <-ctx.Done():
				return "", errors.Join(context.Cause(ctx), err)
			}
		}
	}
}
