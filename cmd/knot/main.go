// Command knot serves the files below a folder over HTTP. Run it with help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/flaghelp"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/knot"
)

func main() {
	if len(os.Args) > 1 {
		if command := commands[os.Args[1]]; command != nil {
			os.Exit(command(os.Args[2:], os.Stdin, os.Stdout, os.Stderr)) // a signal ends these
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one ends the process at once.
	context.AfterFunc(ctx, stop)
	// Libraries that log, by package log or log/slog, do not wait for the reader of standard error either.
	slog.SetDefault(logwriter.NewLogger(logwriter.Stderr))
	code := run(ctx, os.Args[1:], os.Stdout, logwriter.Stderr)
	logwriter.Stderr.Drain(lastWords)
	os.Exit(code)
}

// lastWords is how long the end waits for the reader of the standard error.
const lastWords = time.Second

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// run is main with its surroundings as arguments: it serves until ctx ends and
// returns the exit code. It must be called on a plain goroutine.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	caught := catchSignals()
	defer caught.release()
	out := &flaghelp.Output{Writer: stdout}
	set, err := parse(args, out)
	switch {
	case errors.Is(err, flag.ErrHelp), errors.Is(err, errVersion):
		return out.Code(exitFailed, stderr, "knot")
	case err != nil:
		fmt.Fprintf(stderr, "knot: %v\nTry knot -help.\n", err)
		return exitUsage
	}
	signal.Notify(brokenPipes, syscall.SIGPIPE)
	stopped, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- serve(ctx, set, args, stdout, stderr, caught, func() { close(stopped) }) }()
	if err := awaitEnd(ended, stopped); err != nil {
		// The library's errors name their package, which is called as the program is.
		fmt.Fprintln(stderr, "knot:", strings.TrimPrefix(explain(err, set), "knot: "))
		return exitFailed
	}
	return exitOK
}

// endPatience is how long it may take to write what is left, once nothing is served any more.
var endPatience = 5 * time.Second // for tests to change

var errStuck = errors.New("what was left of the access log or the output could not be written: nobody takes it")

// awaitEnd returns the error of serve, which comes from ended. Once stopped is closed it waits no longer than endPatience: a pipe
// that knot writes to may have no reader.
func awaitEnd(ended <-chan error, stopped <-chan struct{}) error {
	select {
	case err := <-ended:
		return err
	case <-stopped:
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(endPatience):
		return errStuck
	}
}

// brokenPipes takes the signal that else ends a process whose output or error log has lost its reader. It does so to the
// very end, when the last lines are written.
var brokenPipes = make(chan os.Signal, 1)

// caught are the signals that are no reason to stop, and would end a process that does not expect them. They are
// caught before anything else is done, and wait until a server can answer them.
type caught struct {
	hangups, upgrades, sink chan os.Signal
	nohup                   bool // knot was started by nohup(1)
}

func catchSignals() *caught {
	c := &caught{make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan os.Signal, 1), signal.Ignored(syscall.SIGHUP)}
	signal.Notify(c.hangups, syscall.SIGHUP)
	signal.Notify(c.upgrades, syscall.SIGUSR1)
	signal.Notify(c.sink, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2) // while no server answers them, at the end too
	return c
}

func (c *caught) release() {
	signal.Stop(c.hangups)
	signal.Stop(c.upgrades)
	signal.Stop(c.sink)
}

// serve runs the server until ctx ends and the requests under way are answered. Then it calls stopped, and writes the rest of the
// access log and the output, which may have to wait for their readers.
func serve(ctx context.Context, set *settings, args []string, stdout, stderr io.Writer, caught *caught, stopped func()) (err error) {
	errorLog := logwriter.NewLogger(stderr)
	out := logwriter.New(stdout, "knot: the output", func() *slog.Logger { return errorLog })
	defer out.Flush()
	from, err := inherit(os.Getenv, os.Unsetenv, os.Getpid())
	if err != nil {
		return err
	}
	var served running
	defer func() { err = errors.Join(err, served.close()) }() // errors of logs are those of the program
	server := set.server
	server.ErrorLog, server.Outgoing = errorLog, outgoing(set.sites)
	secure, err := openTLS(&set.tls, errorLog)
	if err != nil {
		return err
	}
	defer secure.close()
	ctx, end := context.WithCancelCause(ctx)
	cancel := func() { end(nil) }
	defer cancel()
	log := &accessLog{stdout: out, errorLog: errorLog}
	if err := log.open(set); err != nil {
		return err
	}
	// Deferred before what uses the log, so that it is the last to end.
	defer func() { err = errors.Join(err, log.close()) }()
	state := newHealth(server.Stats)
	served.loads = newReporter(ctx, server.Stats)
	admin := &adminNow{listen: func(addr string, socket *os.File) (*adminServer, error) {
		return listenAdmin(addr, socket, errorLog, served.stats, state.register, metricsPage(server, &served, state), served.purgePage)
	}}
	served.parts = &parts{server, secure, log, admin, new(ranking)}
	served.parts.ranks.begin(server, set)
	defer caught.onHangup(log, served.reloading(set, args, errorLog, secure), errorLog, cancel)()
	defer served.stopListening()
	if err := admin.open(set.admin, from.admin); err != nil {
		return err
	}
	defer admin.stop()
	if err := set.assign(from.sockets, errorLog); err != nil {
		return err
	}
	if err := set.dropRights(errorLog); err != nil {
		return err
	}
	if err := errors.Join(set.checkDump(), set.tls.checkCache()); err != nil {
		return err
	}
	secure.now.Load().load()
	defer set.tls.shareTickets(secure, errorLog)()
	if err := served.load(set, errorLog); err != nil {
		return err
	}
	served.catchUp(set, args, errorLog)
	set.serveOn(&served, secure, predecessorEnd(&from), errorLog)
	systemd := notifier{os.Getenv("NOTIFY_SOCKET")}
	var once sync.Once
	listening := make(chan struct{})
	server.Listening = func(net.Addr) {
		once.Do(func() {
			defer close(listening)
			served.on.Load().startACME()
			set.announce(out, admin.get(), served.on.Load().urls())
			state.listening.Store(true)
			admin.get().start()
			from.serving()
			systemd.notify("READY=1\nSTATUS=serving")
		})
	}
	defer systemd.watchdog(os.Getenv("WATCHDOG_USEC"), state.alive)()
	upgrade := &handover{pid: os.Getpid(), sockets: served.on.Load().sockets, alone: served.handOver, program: ownProgram(os.Args[0]), args: args, admin: admin, log: errorLog, notify: systemd.notify, ctx: ctx, done: end}
	defer upgrade.onUpgrade(caught.upgrades, listening)()
	defer systemd.whenDone(ctx, out, set.quiet, func() int {
		n := server.Stats()
		return n.Conns - n.Hijacked
	})()
	err = capriccio.Run(context.Background(), func(context.Context) error {
		return server.Run(ctx)
	}, set.options(errorLog)...)
	served.stopListening()
	stopped()
	if err == nil && !set.quiet {
		if context.Cause(ctx) == knot.ErrHandedOver {
			fmt.Fprintln(out, "stopped; the new process serves on")
		} else {
			fmt.Fprintln(out, "stopped")
		}
	}
	return err
}

// options are those of the runtime.
func (set *settings) options(log *slog.Logger) []capriccio.Option {
	options := []capriccio.Option{
		// The signals end the context of serve; Run of the server then stops in its own time.
		capriccio.WithoutStopSignals(),
		capriccio.WithLogger(log),
	}
	if set.loops != 0 {
		options = append(options, capriccio.WithLoops(set.loops))
	}
	if set.dump != "" {
		options = append(options, capriccio.WithDumpPath(set.dump))
	}
	if set.poller != "" {
		options = append(options, capriccio.WithPoller(capriccio.Poller(set.poller)))
	}
	return options
}

// announce writes what is served where. admin may be nil.
func (set *settings) announce(stdout io.Writer, admin *adminServer, urls []string) {
	root := set.config
	if len(set.sites) == 1 && set.sites[0].Root != "" {
		root = set.sites[0].Root
	}
	if abs, err := filepath.Abs(root); err == nil {
		root = abs
	}
	fmt.Fprintf(stdout, "serving %s on %s\n", root, strings.Join(urls, ", "))
	if admin != nil {
		fmt.Fprintf(stdout, "admin pages on %s\n", address("http", admin.addr))
	}
	if !set.quiet {
		fmt.Fprintln(stdout, "stop with Ctrl-C")
	}
}

// ownProgram is the path of this program, which was called by that name: with its links, as a link may lead to another
// version later. os.Executable has resolved them.
func ownProgram(called string) string {
	resolved, err := os.Executable()
	if err != nil {
		return called
	}
	found, err := exec.LookPath(called)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	this, thisErr := os.Stat(resolved)
	other, otherErr := os.Stat(found)
	if err == nil && thisErr == nil && otherErr == nil && os.SameFile(this, other) {
		return found
	}
	return resolved
}

// address is addr as something to click on.
func address(scheme string, addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("%s://localhost:%d (every address of this machine, port %d)", scheme, tcp.Port, tcp.Port)
	}
	if addr.Network() == "unix" { // there are no URLs of these
		return "unix:" + addr.String()
	}
	return scheme + "://" + addr.String()
}

// explain reports what to do about the errors that beginners meet.
func explain(err error, set *settings) string {
	var path *os.PathError
	addr, flag, orUnix := set.server.Addr, "-addr", ", or unix:/path"
	if at := (*addressError)(nil); errors.As(err, &at) {
		addr, flag = at.addr, at.key
		if flag == adminFlag {
			orUnix = ""
		}
	}
	switch {
	case strings.Contains(addr, "/") && !strings.HasPrefix(addr, "unix:") && !errors.As(err, &path):
		return fmt.Sprintf("%v\n%s wants host:port%s.", err, flag, orUnix)
	case likelyAddress(err) != "":
		return fmt.Sprintf("%v\nDid you mean %s %s?", err, flag, likelyAddress(err))
	case strings.HasPrefix(addr, "unix:"):
		return err.Error()
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("%v\nAnother program uses %s already. Choose another port with %s; with port 0 a free one is taken.", err, addr, flag)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Sprintf("%v\nknot needs some 40 descriptors, and one for each client: allow more with ulimit -n, or LimitNOFILE of systemd.", err)
	case errors.Is(err, syscall.ENOMEM) && !errors.As(err, &path):
		return fmt.Sprintf("%v\nChoose less with -cache.", err)
	case errors.Is(err, syscall.EACCES) && !errors.As(err, &path):
		return fmt.Sprintf("%v\nPorts below 1024 need special rights. Choose another one with %s.", err, flag)
	}
	return err.Error()
}

// likelyAddress is the address that was probably meant by one without a port, or by an
// IPv6 address without brackets; "" if err is about something else.
func likelyAddress(err error) string {
	var wrong *net.AddrError
	if !errors.As(err, &wrong) {
		return ""
	}
	_, port, _ := net.SplitHostPort(knot.DefaultAddr)
	addr := strings.Trim(wrong.Addr, "[]")
	if number, err := strconv.ParseUint(addr, 10, 16); err == nil {
		return fmt.Sprintf(":%d", number)
	}
	if _, err := netip.ParseAddr(addr); err == nil || wrong.Err == "missing port in address" {
		return net.JoinHostPort(addr, port)
	}
	return ""
}
