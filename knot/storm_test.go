package knot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// stormPatience bounds every wait of the tests below. Nothing depends on how
// long something takes within it.
const stormPatience = 5 * time.Minute

// stormRequest asks for the small file of stormSite.
const stormRequest = "GET /small HTTP/1.1\r\nHost: h\r\n\r\n"

const (
	stormSmall = "all is well\n"
	stormLarge = 1 << 20  // bytes of /large
	stormHuge  = 64 << 20 // bytes of /huge, more than the buffers of a connection take
)

// TestStorm treats the program knot, a process of its own, as badly as clients
// and systems do. Each time it goes on serving, gives its descriptors back and
// ends well on SIGTERM.
func TestStorm(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("no /proc here to count descriptors with:", err)
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command here to build knot with:", err)
	}
	program := filepath.Join(t.TempDir(), "knot")
	testenv.Run(t, "", nil, tool, "build", "-buildvcs=false", "-o", program, "../cmd/knot")
	checkLeaks(t) // only now: package os keeps a poller from its first use on
	root := stormSite(t)
	start := func(t *testing.T, files int, args ...string) *knotProcess {
		return startKnot(t, program, root, files, args)
	}
	for _, storm := range []struct {
		name string
		fn   func(*testing.T, func(*testing.T, int, ...string) *knotProcess)
	}{
		{"connections dropped", stormOfDrops},
		{"SIGTERM under load", stormOfRequests},
		{"SIGTERM and a request behind", stormOfPipelining},
		{"resets at every point", stormOfResets},
		{"half-open and slow", stormOfSilence},
		{"out of descriptors", stormOfDescriptors},
	} {
		t.Run(storm.name, func(t *testing.T) { storm.fn(t, start) })
	}
}

// stormOfDrops opens connections as fast as it can and drops them, twice: what
// the first round has left behind in memory is caches, and the second must do
// with them. If more were open at a time in the second, those after it must.
func stormOfDrops(t *testing.T, start func(*testing.T, int, ...string) *knotProcess) {
	const clients = 8
	total := 65_536
	if testing.Short() || !testenv.Full() {
		total = 4096
	}
	var limit unix.Rlimit
	testenv.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	batch := min(1000, int(min(limit.Cur, 1<<20))/2/clients)
	if batch < 8 {
		t.Skipf("the limit of %d descriptors is too low", limit.Cur)
	}
	k := start(t, 0)
	files, memory := k.settledFiles(), []int{k.resident()}
	const slack, rounds = 48 << 20, 4 // of growth, with which only a leak goes on for so long
	for round := 1; round <= 2 || round <= rounds && memory[round-1] > memory[round-2]+slack; round++ {
		errs := make(chan error, clients)
		for i := range clients {
			// An address of its own: one has not enough ports.
			source := &unix.SockaddrInet4{Addr: [4]byte{127, 0, byte(round), byte(1 + i)}}
			go func() { errs <- dropMany(k.addr, source, total/2/clients, batch) }()
		}
		for range clients {
			testenv.Check(t, <-errs)
		}
		k.awaitFiles(files)
		k.mustServe("after the storm")
		memory = append(memory, k.resident())
	}
	t.Logf("%d connections a round; %d descriptors; %d bytes resident", total/2, k.files(), memory)
	if last := len(memory) - 1; memory[last] > memory[last-1]+slack {
		t.Errorf("%d bytes resident at first and after each round", memory)
	}
	k.mustServe("at last")
}

// dropMany makes n connections, batch at a time, and drops each batch: half by
// RST, half by FIN, a third of each with half a request sent.
func dropMany(addr *net.TCPAddr, source *unix.SockaddrInet4, n, batch int) error {
	target := &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}
	fds := make([]int, 0, batch)
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for made := range n {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("socket %d: %w", made, err)
		}
		fds = append(fds, fd)
		// Also the limit of a blocking connect, socket(7).
		patience := unix.NsecToTimeval(int64(stormPatience))
		err = errors.Join(
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patience),
			unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
			unix.Bind(fd, source), connectRetrying(fd, target))
		if err != nil {
			return fmt.Errorf("connection %d: %w", made, err)
		}
		if made%3 == 0 {
			// One that was turned away is closed already.
			unix.SendmsgN(fd, []byte(stormRequest[:len(stormRequest)/2]), nil, nil, unix.MSG_NOSIGNAL)
		}
		if len(fds) < batch && made < n-1 {
			continue
		}
		for i, fd := range fds {
			if i%2 == 0 {
				unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
			}
			unix.Close(fd)
		}
		fds = fds[:0]
	}
	return nil
}

// connectRetrying is connect(2) with EINTR taken care of: the runtime's signals
// interrupt a call that waits, which then goes on in the kernel.
func connectRetrying(fd int, target unix.Sockaddr) error {
	for {
		switch err := unix.Connect(fd, target); err {
		case unix.EINTR, unix.EALREADY:
		case unix.EISCONN:
			return nil
		default:
			return err
		}
	}
}

// stormOfRequests sends SIGTERM while clients are busy: a response that was
// begun arrives whole.
func stormOfRequests(t *testing.T, start func(*testing.T, int, ...string) *knotProcess) {
	const clients, warm = 12, 20
	k := start(t, 0, "-grace", "30s")
	var answered, after atomic.Int64
	var signalled atomic.Bool
	errs := make(chan error, clients)
	loaded := make(chan bool, clients)
	for i := range clients {
		path := []string{"/small", "/large"}[i%2]
		go func() {
			errs <- k.askForEver(path, func(n int) {
				answered.Add(1)
				if signalled.Load() {
					after.Add(1)
				}
				if n == warm {
					loaded <- true
				}
			})
		}()
	}
	patience := time.After(stormPatience)
	for range clients {
		select {
		case <-loaded:
		case err := <-errs:
			t.Fatalf("a client ended before SIGTERM: %v", err)
		case <-patience:
			t.Fatalf("only %d responses in %v", answered.Load(), stormPatience)
		}
	}
	signalled.Store(true)
	k.stop()
	for range clients {
		testenv.Check(t, <-errs)
	}
	t.Logf("%d responses, %d after SIGTERM", answered.Load(), after.Load())
	if nc, err := k.dial(); err == nil {
		nc.Close()
		t.Error("something still listens")
	}
}

// askForEver asks for path on one connection until the server ends it. An end
// within a response is an error.
func (k *knotProcess) askForEver(path string, answered func(n int)) error {
	nc, err := k.dial()
	if err != nil {
		return err
	}
	defer nc.Close()
	r := bufio.NewReader(nc)
	for n := 1; ; n++ {
		_, writeErr := io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n")
		if _, err := r.Peek(1); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("%s: request %d: %w", path, n, err)
			}
			return nil // idle when the server closed it
		}
		if writeErr != nil {
			return fmt.Errorf("%s: request %d not taken, and yet answered: %w", path, n, writeErr)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return fmt.Errorf("%s: response %d: %w", path, n, err)
		}
		got, err := io.Copy(io.Discard, resp.Body)
		if err != nil || got != resp.ContentLength || resp.StatusCode != 200 {
			return fmt.Errorf("%s: response %d: status %d, %d of %d bytes, %w", path, n, resp.StatusCode, got, resp.ContentLength, err)
		}
		answered(n)
		if resp.Close {
			return nil
		}
	}
}

// stormOfPipelining sends a request behind a response that is under way when
// SIGTERM comes. It is not answered, but it must not cut the response off
// either: closing with unread input resets the connection.
func stormOfPipelining(t *testing.T, start func(*testing.T, int, ...string) *knotProcess) {
	k := start(t, 0, "-grace", "30s")
	nc := testenv.Need(k.dial())(t)
	defer nc.Close()
	nc.SetReadBuffer(256 << 10)
	io.WriteString(nc, strings.Replace(stormRequest, "small", "huge", 1))
	r := bufio.NewReader(nc)
	resp := testenv.Need(http.ReadResponse(r, nil))(t)
	stopped := make(chan bool)
	go func() {
		k.stop()
		close(stopped)
	}()
	k.await("an end of listening", func() bool {
		other, err := k.dial()
		if err == nil {
			other.Close()
		}
		return err != nil
	})
	io.WriteString(nc, stormRequest)
	// So much that the server sees its end while the rest is in the buffers.
	got, err := io.CopyN(io.Discard, resp.Body, stormHuge-1_500_000)
	for more := true; more && err == nil; {
		piece := int64(stormHuge)
		if k.reads("huge") {
			piece = 1000
		}
		var n int64
		n, err = io.CopyN(io.Discard, resp.Body, piece)
		got, more = got+n, n == piece
	}
	if err != io.EOF || got != stormHuge {
		t.Errorf("%d of %d bytes, %v", got, stormHuge, err)
	}
	// Nobody has told the client that it should not ask again.
	if resp, err = http.ReadResponse(r, nil); err != nil {
		t.Fatal("no answer to the request behind: ", err)
	}
	if body, err := io.ReadAll(resp.Body); resp.StatusCode != 200 || !resp.Close || err != nil {
		t.Errorf("then status %d, Connection: close %v, %q, %v", resp.StatusCode, resp.Close, body, err)
	}
	if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil {
		t.Errorf("then %q, %v", rest, err)
	}
	nc.Close()
	<-stopped
}

// reads reports whether the process has the file of that name open.
func (k *knotProcess) reads(name string) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", k.cmd.Process.Pid))
	for _, link := range links {
		if file, _ := os.Readlink(link); filepath.Base(file) == name {
			return true
		}
	}
	return false
}

// stormOfResets resets connections after every byte of an exchange.
func stormOfResets(t *testing.T, start func(*testing.T, int, ...string) *knotProcess) {
	k := start(t, 0)
	whole, files := k.wholeResponse(), k.settledFiles()
	cut := func(request string, read int) {
		nc := testenv.Need(k.dial())(t)
		defer reset(nc)
		testenv.Need(io.WriteString(nc, request))(t)
		testenv.Must(t, testenv.Err(io.CopyN(io.Discard, nc, int64(read))), "reading %d bytes", read)
	}
	for n := range len(stormRequest) + 1 {
		cut(stormRequest[:n], 0)
	}
	k.mustServe("after resets within the request")
	for n := range whole + 1 {
		cut(stormRequest, n)
		// The next one is half read when the connection ends.
		cut(stormRequest+stormRequest[:n%len(stormRequest)], n)
	}
	k.mustServe("after resets within the response")
	for n := 1; n <= stormLarge; n *= 2 {
		cut(strings.Replace(stormRequest, "small", "large", 1), n)
		cut(strings.Repeat(stormRequest, 50), min(n, 50*whole))
	}
	k.mustServe("after resets within large responses")
	k.awaitFiles(files)
	for line := range strings.Lines(k.stderr.String()) {
		if !strings.Contains(line, `level=WARN msg="task: `) { // which a slow machine may cause
			t.Errorf("clients that vanish are no failures of the server: %s", line)
		}
	}
}

// wholeResponse is the size in bytes of the answer to stormRequest.
func (k *knotProcess) wholeResponse() int {
	nc := testenv.Need(k.dial())(k.t)
	defer nc.Close()
	io.WriteString(nc, stormRequest)
	nc.CloseWrite()
	all, err := io.ReadAll(nc)
	if err != nil || !strings.HasSuffix(string(all), stormSmall) {
		k.t.Fatalf("response %q, %v", all, err)
	}
	return len(all)
}

// stormOfSilence has clients that send one byte and stop, and others that ask
// for much and read nothing: they are in nobody's way and do not stay.
func stormOfSilence(t *testing.T, start func(*testing.T, int, ...string) *knotProcess) {
	const clients = 64
	k := start(t, 0, "-head-timeout", "4s", "-write-timeout", "1s", "-idle-timeout", "4s")
	files := k.settledFiles()
	var silent, slow []*net.TCPConn
	for range clients {
		for _, kind := range []*[]*net.TCPConn{&silent, &slow} {
			nc := testenv.Need(k.dial())(t)
			defer reset(nc)
			*kind = append(*kind, nc)
		}
		silent[len(silent)-1].Write([]byte("G"))
		nc := slow[len(slow)-1]
		nc.SetReadBuffer(8 << 10)
		io.WriteString(nc, strings.Replace(stormRequest, "small", "huge", 1))
	}
	for range 100 {
		k.mustServe("beside silent and slow clients")
	}
	for i, nc := range slow {
		// On a busy machine one or the other may have been too slow to ask.
		if _, err := nc.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("slow client %d was neither answered nor turned away: %v", i, err)
		}
	}
	k.awaitFiles(files)
	for i, nc := range silent {
		text, err := io.ReadAll(nc)
		if errors.Is(err, os.ErrDeadlineExceeded) || len(text) > 0 && statusOf(string(text)) != "408" {
			t.Fatalf("silent client %d got %q, %v; %d descriptors, %d at first", i, text, err, k.files(), files)
		}
	}
	k.mustServe("afterwards")
}

// stormOfDescriptors has 200 clients at a server that may open 64 files.
func stormOfDescriptors(t *testing.T, start func(*testing.T, int, ...string) *knotProcess) {
	const clients, files = 200, 64
	for name, conns := range map[string]string{"limit of its own": "0", "no limit of its own": "-1"} {
		t.Run(name, func(t *testing.T) {
			k := start(t, files, "-max-conns", conns, "-head-timeout", "60s")
			before := k.settledFiles()
			var crowd []*net.TCPConn
			for range clients {
				nc := testenv.Need(k.dial())(t)
				defer nc.Close()
				crowd = append(crowd, nc)
			}
			if conns == "-1" {
				k.await("all descriptors taken", func() bool { return k.files() >= files })
				k.await("a word about it", func() bool { return strings.Contains(k.stderr.String(), "accept fails") })
			}
			k.mustRest()
			served := make(chan error, clients)
			for _, nc := range crowd {
				go func() { served <- k.insist(nc) }()
			}
			for range clients {
				if err := <-served; err != nil {
					t.Errorf("%v\n%s", err, k.stderr)
				}
			}
			k.awaitFiles(before)
			k.mustServe("afterwards")
			testenv.AtMost(t, strings.Count(k.stderr.String(), "accept fails"), 100, "it wrote N lines about the lack of descriptors")
		})
	}
}

// mustRest measures that the process is idle, by far: one that spins would use
// all of the time on one core, half of it if the machine is busy.
func (k *knotProcess) mustRest() {
	k.t.Helper()
	for range 10 { // on a slow machine it may still be at what there was to do
		cpu, begin := k.cpu(), time.Now()
		k.await("a second", func() bool { return time.Since(begin) >= time.Second })
		used, passed := k.cpu()-cpu, time.Since(begin)
		k.t.Logf("%v of %v used", used, passed)
		if used <= passed/4 {
			return
		}
	}
	k.t.Error("it is busy while there is nothing to do")
}

// insist asks, first on nc, until it is served: one that is turned away, or
// whose file can't be opened for lack of descriptors, tries again a bit later.
func (k *knotProcess) insist(nc *net.TCPConn) error {
	status, err := ask(nc)
	nc.Close()
	patience := time.After(stormPatience)
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for status != 200 || err != nil {
		if status != 0 && status != 503 {
			return fmt.Errorf("status %d", status)
		}
		select {
		case <-pause.C:
			status, err = k.get()
		case <-patience:
			return fmt.Errorf("not served in %v; at last: status %d, %w", stormPatience, status, err)
		}
	}
	return nil
}
