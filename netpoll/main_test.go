//go:build linux

package netpoll

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/uring"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(childVariable); what != "" {
		os.Exit(runChild(what))
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2) // has a goroutine, as capriccio.Run in an example
	sockaddr.HaveIPv6()                                     // opens and closes a descriptor, once
	os.Exit(testenv.RunAndCheckLeaks(m, nil))
}

// breathe lets other threads work while a test polls for a state that nothing announces.
func breathe(d time.Duration) { <-time.After(d) }

// pollers are those of this package.
var pollers = []struct {
	name string
	open func() (engine.Poller, error)
}{
	{"epoll", newEpoll},
	{"epoll-resting", newResting},
	{"uring", func() (engine.Poller, error) { return newUring(uringOptions{}) }},
}

// A restingEpoll waits as an epoll does that expects a long wait.
type restingEpoll struct{ *epoll }

func newResting() (engine.Poller, error) {
	p, err := newEpoll()
	if err != nil {
		return nil, err
	}
	return restingEpoll{p.(*epoll)}, nil
}

func (p restingEpoll) Poll(timeout time.Duration) error { return p.Rest(timeout) }

// skipRefused skips the test if err means that there is no io_uring here.
func skipRefused(t testing.TB, err error) {
	t.Helper()
	if err != nil && refused(err) {
		t.Skipf("io_uring is not to be had: %v", err)
	}
}

func refused(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) ||
		errors.Is(err, unix.ENOMEM) || errors.Is(err, uring.ErrNoMultishot)
}

// A setting is one poller with one number of loops.
type setting struct {
	name  string
	open  func() (engine.Poller, error)
	loops int
}

// settings are all of them, or, without testenv.Full, one with epoll and one with the ring.
func settings() []setting {
	if !testenv.Full() {
		return []setting{onOneOf("epoll", 2), onOneOf("uring", 1)}
	}
	var all []setting
	for _, p := range pollers {
		for _, n := range []int{1, 2, 8} {
			all = append(all, setting{fmt.Sprintf("%s/loops=%d", p.name, n), p.open, n})
		}
	}
	return all
}

// start makes a runtime for the length of the test.
func (s setting) start(t testing.TB, change ...func(*engine.Config)) *engine.Runtime {
	t.Helper()
	cfg := engine.Config{
		Loops:     s.loops,
		NewPoller: func(int) (engine.Poller, error) { return s.open() },
		HoldLimit: -1,
		Log:       slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	rt, err := engine.New(cfg)
	skipRefused(t, err)
	testenv.Must(t, err)
	t.Cleanup(func() {
		if err := rt.Close(); cfg.Grace == 0 || cfg.Grace >= time.Minute { // a short one is over soon on a slow machine
			testenv.Check(t, err, "closing the runtime")
		}
	})
	return rt
}

// everywhere runs the test in every setting.
func everywhere(t *testing.T, f func(t *testing.T, rt *engine.Runtime)) {
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) { f(t, s.start(t)) })
	}
}

// inTaskEverywhere runs the test as a task in every setting.
func inTaskEverywhere(t *testing.T, f func(t *testing.T)) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) { inTask(t, rt, func() { f(t) }) })
}

var pollerFlag = flag.String("poller", "epoll", "poller of the tests that run on one only")

// onOne is the setting of tests that run on one poller only.
func onOne(t testing.TB, loops int) setting {
	s := onOneOf(*pollerFlag, loops)
	if s.open == nil {
		t.Fatalf("-poller=%s: there is no such poller", *pollerFlag)
	}
	return s
}

func onOneOf(poller string, loops int) setting {
	for _, p := range pollers {
		if p.name == poller {
			return setting{fmt.Sprintf("%s/loops=%d", p.name, loops), p.open, loops}
		}
	}
	return setting{}
}

// withEpoll runs a runtime of two loops, on epoll unless a flag says otherwise.
func withEpoll(t testing.TB) *engine.Runtime { return onOne(t, 2).start(t) }

// inTask runs f as a task and waits for it.
func inTask(t testing.TB, rt *engine.Runtime, f func()) {
	t.Helper()
	testenv.Must(t, rt.Go(f).Join(), "task")
}

// must fails the test from any goroutine or task.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Error(err)
		panic(err)
	}
}

// need is what a call returns that must not fail: c := need(Dial(network, address))(t).
func need[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		if err != nil {
			t.Helper()
			must(t, err)
		}
		return v
	}
}

// closing closes c at the end of the test, if the test has not.
func closing[C io.Closer](t testing.TB, c C) C {
	t.Cleanup(func() {
		if err := c.Close(); !errors.Is(err, net.ErrClosed) {
			testenv.Check(t, err, "Close")
		}
	})
	return c
}

// The functions below make what is closed at the end of the test.

func listen(t testing.TB, network string) *Listener {
	t.Helper()
	return closing(t, need(Listen(network, testAddress(t, network)))(t))
}

func dial(t testing.TB, to net.Addr) *Conn {
	t.Helper()
	return closing(t, need(Dial(to.Network(), to.String()))(t).(*Conn))
}

func listenPacket(t testing.TB, network string) *PacketConn {
	t.Helper()
	return closing(t, need(ListenPacket(network, testAddress(t, network)))(t))
}

func dialPacket(t testing.TB, to net.Addr) *PacketConn {
	t.Helper()
	return closing(t, need(Dial(to.Network(), to.String()))(t).(*PacketConn))
}

func pipe(t testing.TB) (r, w *File) {
	t.Helper()
	r, w, err := Pipe()
	must(t, err)
	return closing(t, r), closing(t, w)
}

// drainingFor is listen for a Serve that drains for as long as limit says.
func drainingFor(t testing.TB, network string, limit time.Duration) *Listener {
	t.Helper()
	return closing(t, need(ListenConfig{DrainLimit: limit}.Listen(context.Background(), network, testAddress(t, network)))(t))
}

// client is a connection of package net.
func client(t testing.TB, to net.Addr) net.Conn {
	t.Helper()
	c := closing(t, need(net.Dial(to.Network(), to.String()))(t))
	must(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

func accept(t testing.TB, ln *Listener) *Conn {
	t.Helper()
	return closing(t, need(ln.AcceptConn())(t))
}

// connPair makes a connected pair: the client's end and the accepted one.
func connPair(t testing.TB, network string) (client, server *Conn) {
	t.Helper()
	ln := need(Listen(network, testAddress(t, network)))(t)
	defer ln.Close()
	client = dial(t, ln.Addr())
	return client, accept(t, ln)
}

// onLoop runs f on the goroutine of the loop that c belongs to.
func onLoop(c *Conn, f func()) {
	done := make(chan struct{})
	c.d.loop.Post(func() { f(); close(done) })
	<-done
}

func sameBytes(t testing.TB, got, want []byte, what string) {
	t.Helper()
	testenv.True(t, bytes.Equal(got, want), "%s: got %d bytes that differ from the %d sent", what, len(got), len(want))
}

// reads checks that the next Read of r returns want.
func reads(t testing.TB, r io.Reader, want string, what ...any) {
	t.Helper()
	b := make([]byte, len(want)+10)
	n, err := r.Read(b)
	testenv.Check(t, err, what...)
	testenv.Equal(t, string(b[:n]), want, what...)
}

// readFails checks that the next Read of r returns nothing but the error want.
func readFails(t testing.TB, r io.Reader, want error, what ...any) {
	t.Helper()
	n, err := r.Read(make([]byte, 1))
	testenv.Equal(t, n, 0, what...)
	testenv.ErrorIs(t, err, want, what...)
}

// readsAll checks that r has want and then ends.
func readsAll(t testing.TB, r io.Reader, want string, what ...any) {
	t.Helper()
	got, err := io.ReadAll(r)
	testenv.Check(t, err, what...)
	testenv.Equal(t, string(got), want, what...)
}

// talkOnce sends a word.
func talkOnce(t testing.TB, from io.Writer, to io.Reader) {
	t.Helper()
	need(from.Write([]byte("word")))(t)
	reads(t, to, "word")
}

// echoes checks that the server at that address sends back what a client sends.
func echoes(t testing.TB, at net.Addr) {
	t.Helper()
	c := client(t, at)
	talkOnce(t, c, c)
	must(t, c.Close())
}

// startServing runs serve as a task. The function that it returns closes ln, which must end that.
func startServing(t testing.TB, ln *Listener, serve func() error) (end func()) {
	ended := make(chan error, 1)
	ln.d.loop.Runtime().Go(func() { ended <- serve() })
	return func() {
		t.Helper()
		must(t, ln.Close())
		testenv.ErrorIs(t, <-ended, net.ErrClosed, "serving")
	}
}

// networks are those of the names that this machine has.
func networks(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "6") && !sockaddr.HaveIPv6() })
}

func testAddress(t testing.TB, network string) string {
	switch network {
	case "unix", "unixgram":
		return "@" + strings.ReplaceAll(t.Name(), "/", "_") + fmt.Sprint(unix.Getpid(), time.Now().UnixNano())
	case "tcp6", "udp6":
		return "[::1]:0"
	}
	return "127.0.0.1:0"
}
