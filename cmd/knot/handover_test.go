package main

import (
	"bufio"
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/addresses"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// servesNothing is a server that listens, and has nothing to serve.
func servesNothing(t *testing.T) (*knot.Server, net.Addr) {
	t.Helper()
	listening := make(chan net.Addr, 1)
	server := &knot.Server{Listening: func(addr net.Addr) { listening <- addr }}
	ended := make(chan error, 1)
	ln := testenv.Listen(t)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return server, <-listening
}

// socketsOf are those of a server with one address.
func socketsOf(server *knot.Server) func() ([]*os.File, []addresses.Socket, error) {
	return func() ([]*os.File, []addresses.Socket, error) {
		files, err := server.Sockets()
		return files, make([]addresses.Socket, len(files)), err
	}
}

// TestHandOverWhileStopping: a process hands over once, and not at all when it is to stop.
func TestHandOverWhileStopping(t *testing.T) {
	server, _ := servesNothing(t)
	begun := filepath.Join(t.TempDir(), "begun")
	testenv.Must(t, syscall.Mkfifo(begun, 0o600))
	notify := func(string) error { return nil }
	hand := func(script string) (h *handover, end context.CancelCauseFunc) {
		ctx, end := context.WithCancelCause(t.Context())
		return &handover{pid: 2, program: "/bin/sh", args: []string{"-c", script}, sockets: socketsOf(server), log: discard, notify: notify, ctx: ctx, done: end}, end
	}
	// Two signals in a row.
	h, end := hand("printf ok >&3")
	if err := h.replace(time.Minute); err != nil || context.Cause(h.ctx) != knot.ErrHandedOver {
		t.Errorf("%v, the context ends with %v", err, context.Cause(h.ctx))
	}
	testenv.Equal(t, h.replace(time.Minute), errStopping, "handed over twice")
	end(nil)
	// A stop signal while the successor starts.
	h, end = hand("echo > " + begun + "; kill -STOP $$")
	go func() {
		os.ReadFile(begun)
		end(nil)
	}()
	testenv.Equal(t, h.replace(time.Hour), errStopping, "told to stop meanwhile")
	// A stop signal when the successor has just come to serve.
	h, end = hand("echo $$ > " + begun + "; printf ok >&3; exec 3>&-; read x < " + begun)
	h.done = func(error) { end(nil) }
	pid := make(chan string, 1)
	go func() {
		text, _ := os.ReadFile(begun)
		pid <- strings.TrimSpace(string(text))
	}()
	testenv.Equal(t, h.replace(time.Minute), errStopping, "told to stop at the last moment")
	number := testenv.Need(strconv.Atoi(<-pid))(t)
	successor := testenv.Need(os.FindProcess(number))(t)
	if state, err := successor.Wait(); err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the successor ends with %v, %v", state, err)
	}
}

// TestProgramBehindALink: a link that a new version is put behind is what the successor is started by.
func TestProgramBehindALink(t *testing.T) {
	self := testenv.Need(os.Executable())(t)
	folder := t.TempDir()
	testenv.Must(t, os.Symlink(filepath.Dir(self), filepath.Join(folder, "current")))
	link := filepath.Join(folder, "current", filepath.Base(self))
	t.Setenv("PATH", filepath.Dir(link))
	t.Chdir(folder)
	for called, want := range map[string]string{
		link: link, filepath.Join("current", filepath.Base(self)): link, filepath.Base(self): link,
		"/bin/sh": self, "no such program": self,
	} {
		testenv.Equal(t, ownProgram(called), want, "called as %s", called)
	}
}

// TestAdminAddressOfAnother: while the process that it comes from may answer there, this one does not.
func TestAdminAddressOfAnother(t *testing.T) {
	socket := testenv.Need(testenv.Listen(t).(*net.TCPListener).File())(t)
	a := testenv.Need(listenAdmin("", socket, discard, func() (none knot.FilesStats) { return none }))(t)
	waits := false
	a.begun.Do(func() {
		waits = true
		close(a.ended)
	})
	a.stop()
	testenv.Equal(t, waits, true, "it has not begun to answer")
}

// TestHandOverOfTheAdminAddress: what asks there hears of the new process, and not of the old one's end, which may be
// long in coming; and nobody listens any more when the new one is not to have such an address.
func TestHandOverOfTheAdminAddress(t *testing.T) {
	config := configFile(t, "root = '%s'\nadmin = '127.0.0.1:0'\n", sampleSite)
	p := startProcess(t, knotCommand(t, "-config", config, "-addr", "127.0.0.1:0", "-quiet", "-loops", "1", "-grace", "1h")).serves(t)
	admin := p.adminAddr(t)
	nc := testenv.Dial(t, p.addr)
	io.WriteString(nc, "GET /notes.txt HTTP/1.1\r\nHost: h\r\n\r\n")
	resp := testenv.Need(http.ReadResponse(bufio.NewReader(nc), nil))(t)
	io.Copy(io.Discard, resp.Body) // it may send one more, and so the process stays
	p.handOver(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	for range 50 {
		if resp, body := testenv.Get(t, client, "http://"+admin+"/readyz"); resp.StatusCode != 200 && !strings.Contains(body, "at the limit") {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
	}
	nc.Close()
	testenv.Check(t, p.Wait())
	write(t, config, "root = '"+sampleSite+"'\n")
	p.handOver(t)
	testenv.Fails(t, testenv.Err(net.Dial("tcp", admin)), "somebody listens on the admin address, and nobody answers there")
	p.signal(t, syscall.SIGTERM)
	io.Copy(io.Discard, p.log) // until the last process has ended
}

// TestUnixSocket: knot serves on a Unix socket in place of one that was left behind, but not of one in use; the
// socket outlives a hand-over, and goes with the last process.
func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "knot") // a path must be short
	testenv.Must(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	left := testenv.Need(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	left.SetUnlinkOnClose(false)
	left.Close()

	p := startProcess(t, knotCommand(t, "-root", sampleSite, "-addr", "unix:"+path, "-quiet", "-loops", "2")).serves(t)
	testenv.Equal(t, strings.HasSuffix(p.printed, " on unix:"+path+"\n"), true, p.printed)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", path)
	}}}
	ask := func() {
		t.Helper()
		resp, _ := testenv.Get(t, client, "http://knot/notes.txt")
		testenv.MustEqual(t, resp.StatusCode, 200, "status")
	}
	ask()
	fails(t, exitFailed, "address already in use", "-root", sampleSite, "-addr", "unix:"+path)
	p.handOver(t)
	testenv.Check(t, p.Wait())
	ask()
	p.signal(t, syscall.SIGTERM)
	io.Copy(io.Discard, p.log) // until it has ended
	testenv.ErrorIs(t, testenv.Err(os.Lstat(path)), fs.ErrNotExist, "the socket")
}

// TestUnixSocketOfAFailedHandOver: a successor that can't listen on all addresses leaves the file of the socket to the process
// that serves on.
func TestUnixSocketOfAFailedHandOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listen := "[[listen]]\naddr = '127.0.0.1:0'\n[[listen]]\naddr = 'unix:" + path + "'\n"
	site := "[[site]]\nroot = '" + sampleSite + "'\n"
	file := configFile(t, "%s", listen+site)
	p := startProcess(t, knotCommand(t, "-config", file, "-quiet", "-loops", "1")).serves(t)
	write(t, file, listen+"[[listen]]\naddr = '"+testenv.Listen(t).Addr().String()+"'\n"+site)
	p.signal(t, syscall.SIGUSR1)
	p.logs(t, "could not be handed over")
	testenv.Equal(t, refused("unix", path), false, "the socket is refused: no process listens")
	p.signal(t, syscall.SIGTERM)
	testenv.Check(t, p.Wait())
	testenv.ErrorIs(t, testenv.Err(os.Lstat(path)), fs.ErrNotExist, "the socket")
}
