package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestSignalsAtTheStart: those that come while the configuration is read do not end knot, and are answered once it serves.
func TestSignalsAtTheStart(t *testing.T) {
	for signal, says := range map[syscall.Signal]string{syscall.SIGUSR2: "", syscall.SIGHUP: "was read again", syscall.SIGUSR1: "handed over"} {
		config := filepath.Join(t.TempDir(), "knot.toml")
		testenv.Must(t, syscall.Mkfifo(config, 0o600))
		p := startProcess(t, knotCommand(t, "-config", config, "-addr", "127.0.0.1:0", "-loops", "1", "-grace", "0"))
		var file *os.File
		testenv.Until(t, fmt.Sprint("knot reads its configuration, of ", signal), func() (ok bool) {
			var err error
			file, err = os.OpenFile(config, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			return err == nil
		})
		p.signal(t, signal)
		const text = "root = '" + sampleSite + "'\n"
		write(t, config, text) // the next time it is a regular file
		io.WriteString(file, text)
		file.Close()
		p.serves(t)
		if says != "" {
			p.logs(t, says)
		}
		p.signal(t, syscall.SIGTERM)
		rest, _ := io.ReadAll(p.log) // until the last process has ended
		testenv.Check(t, p.Wait(), "%v: %s", signal, rest)
	}
}

// TestHandOverLosesNoRequest: while clients ask without a pause, on connections that they keep as
// long as they may, the server reads its configuration again, is replaced, both once more, and is stopped.
func TestHandOverLosesNoRequest(t *testing.T) {
	config := configFile(t, "[[site]]\nroot = %q\n", sampleSite)
	p := startProcess(t, knotCommand(t, "-config", config, "-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-loops", "2", "-grace", "20s", "-h2c")).serves(t)
	addr, admin := p.addr, p.adminAddr(t)
	rest := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(p.out)
		rest <- string(all)
	}()
	c := &crowd{addr: addr, stop: make(chan struct{}), answers: make(chan struct{})}
	failed := make(chan struct{}, 8)
	shared := &http.Client{Transport: testenv.PlainHTTP2(t)}
	var clients sync.WaitGroup
	for i := range cap(failed) {
		clients.Go(func() {
			err := error(nil)
			if i%2 == 0 {
				err = c.ask()
			} else {
				err = c.askHTTP2(shared)
			}
			if err != nil {
				t.Error(err)
				failed <- struct{}{}
			}
		})
	}
	await := func(n int) { // the clients set the pace
		for range n {
			select {
			case <-c.answers:
			case <-failed:
				return
			}
		}
	}
	for range 2 {
		await(100)
		p.signal(t, syscall.SIGHUP)
		await(100)
		p.handOver(t)
	}
	await(200)
	resp, _ := testenv.Get(t, http.DefaultClient, "http://"+admin+"/healthz")
	testenv.Equal(t, resp.StatusCode, 200, "the admin address")
	http.DefaultClient.CloseIdleConnections()
	testenv.Check(t, p.Wait(), "the first process")
	close(c.stop)
	p.signal(t, syscall.SIGTERM)
	clients.Wait()
	io.Copy(io.Discard, p.log) // to the end of the last process
	testenv.Fails(t, testenv.Err(net.Dial("tcp", addr)), "somebody still listens")
	if got := <-rest; strings.Count(got, "stopped; the new process serves on\n") != 2 || strings.Count(got, "stopped\n") != 1 {
		t.Errorf("the processes say %s", got)
	}
}

// A crowd is clients that ask until stop is closed.
type crowd struct {
	addr    string
	stop    chan struct{}
	answers chan struct{} // is told of each answer if somebody listens
}

func (c *crowd) stopping() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

func (c *crowd) answered() {
	select {
	case c.answers <- struct{}{}:
	default:
	}
}

// askHTTP2 asks by a client that shares its connection, and by itself takes another.
func (c *crowd) askHTTP2(client *http.Client) error {
	for {
		resp, err := client.Get("http://" + c.addr + "/")
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if c.stopping() {
			return nil
		}
		if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 {
			return fmt.Errorf("HTTP/2: %v, %w", resp, err)
		}
		c.answered()
	}
}

// ask asks again and again on one connection, and takes another when the server says that it
// closes. Anything else is an error, until stop is closed: then the server may close a connection that it has answered on,
// and take no other.
func (c *crowd) ask() error {
	for {
		nc, err := net.Dial("tcp", c.addr)
		if err != nil {
			if c.stopping() {
				return nil
			}
			return err
		}
		r := bufio.NewReader(nc)
		for answered, last := false, false; !last; answered = true {
			io.WriteString(nc, "GET /notes.txt HTTP/1.1\r\nHost: h\r\n\r\n")
			if _, err := r.Peek(1); err != nil && c.stopping() && answered {
				break
			}
			resp, err := http.ReadResponse(r, nil)
			if err != nil && c.stopping() && !testenv.SocketFilters() {
				break // it can't keep new clients out, and the last ones are dropped
			}
			if err != nil {
				return fmt.Errorf("after another answer: %v, stopping: %v: %w", answered, c.stopping(), err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 200 || !bytes.Contains(body, []byte("Bowline")) {
				return fmt.Errorf("status %d, %d bytes, %v", resp.StatusCode, len(body), err)
			}
			c.answered()
			last = resp.Close
		}
		nc.Close()
	}
}

// TestHandOverThatFails: the new program does not come to serve, and the old one goes on.
func TestHandOverThatFails(t *testing.T) {
	server, addr := servesNothing(t)
	for program, c := range map[string]struct {
		pid  int
		want string
	}{"/bin/false": {2, "did not come to serve"}, "/none/knot": {2, "no such file"}, "/bin/true": {1, "this is process 1"}} {
		h := &handover{pid: c.pid, program: program, sockets: socketsOf(server), notify: func(string) error { return nil }, ctx: t.Context(), done: func(error) { t.Error("ended") }}
		testenv.ErrorSays(t, h.replace(time.Minute), c.want, program)
	}
	resp, _ := testenv.Get(t, http.DefaultClient, "http://"+addr.String())
	testenv.Equal(t, resp.StatusCode, 404, "it does not serve any more")
	http.DefaultClient.CloseIdleConnections()
}

func TestInherit(t *testing.T) {
	for _, test := range []struct {
		env     map[string]string
		sockets string
		admin   bool
		bad     bool
	}{
		{env: nil, sockets: "[]"},
		{env: map[string]string{"LISTEN_PID": "7", "LISTEN_FDS": "2"}, sockets: "[{3 true unknown } {4 true unknown }]"},
		{env: map[string]string{"LISTEN_PID": "7", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "web:"}, sockets: "[{3 true web } {4 true unknown }]"},
		{env: map[string]string{"LISTEN_PID": "8", "LISTEN_FDS": "2"}, sockets: "[]"},
		{env: map[string]string{"LISTEN_PID": "7", "LISTEN_FDS": "x"}, bad: true},
		{env: map[string]string{"LISTEN_PID": "7", "LISTEN_FDS": "0"}, bad: true},
		{env: map[string]string{"KNOT_INHERIT": "0,2"}, sockets: "[{4 false  } {5 false  }]"},
		{env: map[string]string{"KNOT_INHERIT": "1,1"}, sockets: "[{5 false  }]", admin: true},
		{env: map[string]string{"KNOT_INHERIT": "0,1,shared"}, sockets: "[{4 true  }]"},
		{env: map[string]string{"KNOT_INHERIT": "1,3,of=%3A80,systemd%3Aw!,unix%3A%2Fa%2Cb"}, sockets: "[{5 false  :80} {6 true  systemd:w} {7 false  unix:/a,b}]", admin: true},
		{env: map[string]string{"KNOT_INHERIT": "0,2,of=%3A80"}, bad: true},
		{env: map[string]string{"KNOT_INHERIT": "0,1,of=%x"}, bad: true},
		{env: map[string]string{"KNOT_INHERIT": "2,1"}, bad: true},
		{env: map[string]string{"KNOT_INHERIT": "1,0"}, bad: true},
		{env: map[string]string{"KNOT_INHERIT": "x"}, bad: true},
	} {
		var removed int
		in, err := inherit(func(name string) string { return test.env[name] }, func(string) error { removed++; return nil }, 7)
		// The files stand for descriptors that this process uses for something else.
		if (err != nil) != test.bad || !test.bad && (fmt.Sprint(in.sockets) != test.sockets || (in.admin != nil) != test.admin) || removed != 4 {
			t.Errorf("%v: %+v, %v", test.env, in, err)
		}
		forget(in.answer, in.admin)
	}
}

// forgotten keeps files from being closed when they are collected.
var forgotten []*os.File

func forget(files ...*os.File) { forgotten = append(forgotten, files...) }

// TestSystemd: a socket of systemd's is served, and it hears how the service is, also from the process that another one
// has handed over to.
func TestSystemd(t *testing.T) {
	for _, handOver := range []bool{false, true} {
		t.Run(fmt.Sprint("handed over: ", handOver), func(t *testing.T) { underSystemd(t, handOver) })
	}
}

func underSystemd(t *testing.T, handOver bool) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // as systemd's; others have no filters
	ln := testenv.Need(plain.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	socket := testenv.Need(ln.(*net.TCPListener).File())(t)
	defer socket.Close()
	notify := filepath.Join(t.TempDir(), "notify")
	said := testenv.Need(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"}))(t)
	defer said.Close()
	// systemd sets LISTEN_PID after fork and before exec; here a shell does, which execs knot.
	self, _ := os.Executable()
	c := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, self, "-root", sampleSite, "-quiet", "-loops", "2", "-addr", "127.0.0.1:1")
	c.Env = append(os.Environ(), "KNOT_TEST_MAIN=1", "LISTEN_FDS=1", "NOTIFY_SOCKET="+notify, "WATCHDOG_USEC=100000")
	c.ExtraFiles = []*os.File{socket}
	p := startProcess(t, c)
	heard := func(want string) string {
		t.Helper()
		said.SetReadDeadline(time.Now().Add(time.Minute))
		for buf := make([]byte, 4096); ; {
			n, err := said.Read(buf)
			testenv.Must(t, err, "waiting for %s", want)
			if strings.Contains(string(buf[:n]), want) {
				return string(buf[:n])
			}
		}
	}
	heard("READY=1")
	serves := func() {
		t.Helper()
		resp, _ := testenv.Get(t, http.DefaultClient, "http://"+ln.Addr().String()+"/notes.txt")
		testenv.MustEqual(t, resp.StatusCode, 200, "status")
		http.DefaultClient.CloseIdleConnections()
	}
	serves()
	heard("WATCHDOG=1")
	if handOver {
		p.signal(t, syscall.SIGUSR1)
		fmt.Sscanf(heard("MAINPID="), "MAINPID=%d", &p.pid)
		testenv.Check(t, c.Wait())
		serves()
	}
	p.signal(t, syscall.SIGTERM)
	heard("STOPPING=1")
	if !handOver {
		testenv.Check(t, c.Wait())
	}
	if log, _ := io.ReadAll(p.log); strings.Contains(string(log), "level=ERROR") { // to the end of the last process
		t.Errorf("the log says %s", log)
	}
	// The socket is as it was: a client that comes now waits for the next start.
	nc := testenv.Need(net.DialTimeout("tcp", ln.Addr().String(), 10*time.Second))(t)
	nc.Close()
}

// TestWatchdogStops: once stop has returned, nothing is told any more.
func TestWatchdogStops(t *testing.T) {
	asked, answer := make(chan bool), make(chan error)
	var over atomic.Bool
	stop := notifier{socket: "@nobody-listens"}.watchdog("60000000", func(time.Duration) error {
		asked <- true
		err := <-answer
		over.Store(true)
		return err
	})
	<-asked
	go func() { answer <- errors.New("not alive") }()
	stop()
	testenv.Equal(t, over.Load(), true, "stop waits for the answer whether the service is alive")
}

// TestStopProgress: what is left is told while a slow client holds the end up.
func TestStopProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := lines{each: make(chan string, 100)}
		ctx, end := context.WithCancel(context.Background())
		stop := notifier{}.whenDone(ctx, &out, false, func() int { return 3 })
		end()
		testenv.Equal(t, <-out.each, "stopping; connections left: 3\n")
		stop()
		notifier{}.whenDone(context.Background(), &out, false, nil)() // it never ends
	})
}
