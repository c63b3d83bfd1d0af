package addresses

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestCheck(t *testing.T) {
	for addr, want := range map[string]string{
		":80": "", "localhost:http": "", "[::1]:443": "", "unix:/run/x": "", "systemd:web.socket": "",
		"80": "missing port", ":78000": "invalid port", "unix:": "want unix:/path", "systemd:": "want systemd:NAME", "systemd:a b": "want systemd:NAME",
	} {
		if err := Check(addr); want == "" {
			testenv.Check(t, err, addr)
		} else {
			testenv.ErrorSays(t, err, want, addr)
		}
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{":80", ":80", true}, {":80", "0.0.0.0:80", true}, {"[::]:http", ":80", true}, {":80", ":81", false},
		{"127.0.0.1:80", ":80", false}, {"127.0.0.1:0", "127.0.0.1:0", false}, {"unix:/a", "unix:/a", true},
		{"unix:/a", "unix:/b", false}, {"systemd:a", "systemd:a", true}, {"systemd:a", ":80", false},
	} {
		testenv.Equal(t, Same(c.a, c.b), c.want, "%s and %s", c.a, c.b)
	}
}

// TestOverlap: what Overlap says of two addresses is what the system does.
func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{":0", "127.0.0.1:0", true}, {"127.0.0.1:0", ":0", true}, {"0.0.0.0:0", "localhost:0", true}, {"127.0.0.1:0", "127.0.0.2:0", false},
	} {
		a := testenv.Need(net.Listen("tcp", c.a))(t)
		_, port, _ := net.SplitHostPort(a.Addr().String())
		with := func(addr string) string { return strings.TrimSuffix(addr, "0") + port }
		b, err := net.Listen("tcp", with(c.b))
		if err == nil {
			b.Close()
		}
		a.Close()
		testenv.Equal(t, errors.Is(err, unix.EADDRINUSE), c.want, "%s and %s: %v", c.a, c.b, err)
		testenv.Equal(t, Overlap(with(c.a), with(c.b)), c.want, "%s and %s", c.a, c.b)
	}
	for a, b := range map[string]string{":80": ":81", "unix:/a": ":80", "systemd:a": ":80", ":0": "127.0.0.1:0"} {
		testenv.Equal(t, Overlap(a, b), false, "%s and %s", a, b)
	}
}

// socket listens, and is closed in the end.
func socket(t *testing.T, addr string) int {
	t.Helper()
	fd := testenv.Need(openSocket(addr))(t)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestSocketOpenedBefore: the socket for another user is one of plain TCP, on which a stop can keep new clients out.
func TestSocketOpenedBefore(t *testing.T) {
	testenv.Got(unix.GetsockoptInt(socket(t, "127.0.0.1:0"), unix.SOL_SOCKET, unix.SO_PROTOCOL))(t, unix.IPPROTO_TCP, "protocol")
}

// TestAssign: sockets come to the points that they are for, by what is known of them.
func TestAssign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	tcp, file := socket(t, "127.0.0.1:0"), socket(t, "unix:"+path)
	bound := testenv.Need(unix.Getsockname(tcp))(t).(*unix.SockaddrInet4)
	atTCP := fmt.Sprintf("127.0.0.1:%d", bound.Port)
	for name, c := range map[string]struct {
		addrs   []string // of the points; the last one with a plus takes all
		sockets []Socket
		want    string // descriptors of each point, and those that are left
		err     string
	}{
		"the predecessor's addresses":    {[]string{":80", "systemd:w"}, []Socket{{FD: 7, Addr: ":80"}, {FD: 8, Addr: "systemd:w", Shared: true}, {FD: 9, Addr: ":81"}}, "[7] [8] rest [9]", ""},
		"names of systemd's":             {[]string{":80", "systemd:w"}, []Socket{{FD: 7, Name: "w"}, {FD: 8, Name: "w"}, {FD: 9, Name: "x"}}, "[] [7 8] rest [9]", ""},
		"a name that is not passed":      {[]string{"systemd:web"}, []Socket{{FD: 7, Name: "http"}, {FD: 8, Name: "https"}}, "[] rest [7 8]", `at 0: there is no socket named "web" from systemd; it has passed http, https`},
		"no socket is passed":            {[]string{"systemd:web"}, nil, "[] rest []", "it has passed none"},
		"by the address that it has":     {[]string{":80", atTCP, "unix:" + path}, []Socket{{FD: file, Name: "unknown", Shared: true}, {FD: tcp, Shared: true}}, fmt.Sprintf("[] [%d] [%d] rest []", tcp, file), ""},
		"one address takes all the rest": {[]string{atTCP, "+:80"}, []Socket{{FD: tcp, Name: "a"}, {FD: file, Name: "b"}, {FD: 7}}, fmt.Sprintf("[%d] [%d 7] rest []", tcp, file), ""},
		"but not what is another's":      {[]string{"+:80"}, []Socket{{FD: 7, Addr: ":81"}}, "[] rest [7]", ""},
	} {
		var points []*Point
		for i, addr := range c.addrs {
			addr, all := strings.CutPrefix(addr, "+")
			points = append(points, &Point{Addr: addr, Key: fmt.Sprint("at ", i), TakesAll: all})
		}
		numbers := func(sockets []Socket) (all []int) {
			for _, s := range sockets {
				all = append(all, s.FD)
			}
			return all
		}
		rest, err := Assign(points, c.sockets)
		got := ""
		for _, p := range points {
			got += fmt.Sprint(numbers(p.sockets), " ")
		}
		testenv.Equal(t, got+"rest "+fmt.Sprint(numbers(rest)), c.want, name)
		if c.err == "" {
			testenv.Check(t, err, name)
		} else {
			testenv.ErrorSays(t, err, c.err, name)
		}
	}
}

// TestRemoveStale: the file of a socket that no process listens on is removed, one that is in use stays.
func TestRemoveStale(t *testing.T) {
	dir := t.TempDir()
	old, used, plain := filepath.Join(dir, "old"), filepath.Join(dir, "used"), filepath.Join(dir, "plain")
	unix.Close(testenv.Need(openSocket("unix:" + old))(t))
	socket(t, "unix:"+used)
	testenv.Must(t, os.WriteFile(plain, nil, 0o600))
	for path, stays := range map[string]bool{old: false, used: true, plain: true} {
		testenv.Must(t, (&Point{Addr: "unix:" + path}).RemoveStale())
		_, err := os.Lstat(path)
		testenv.Equal(t, err == nil, stays, path)
	}
}

// TestOpen: a point opens its socket once.
func TestOpen(t *testing.T) {
	ln := testenv.Listen(t)
	p := &Point{Addr: ln.Addr().String()}
	testenv.Fails(t, p.Open(os.Getuid(), os.Getgid()), "another listens there")
	p.Addr = net.JoinHostPort("127.0.0.1", "0")
	testenv.Must(t, p.Open(os.Getuid(), os.Getgid()))
	defer unix.Close(p.sockets[0].FD)
	testenv.Must(t, p.Open(os.Getuid(), os.Getgid()))
	testenv.Equal(t, len(p.sockets), 1, "sockets")
}

// TestUndoAfterListenFailed: no descriptor is closed twice, or stays open, if one of the sockets can't be listened on.
func TestUndoAfterListenFailed(t *testing.T) {
	first := testenv.Need(openSocket("127.0.0.1:0"))(t)
	second := testenv.Need(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	third := testenv.Need(openSocket("127.0.0.1:0"))(t)
	p := &Point{Addr: "systemd:w", sockets: []Socket{{FD: first}, {FD: second}, {FD: third}}}
	err := capriccio.Run(t.Context(), func(context.Context) error { return testenv.Err(p.Listen(testenv.Quiet())) }, capriccio.WithoutSignals(), capriccio.WithLoops(1))
	testenv.ErrorSays(t, err, "no stream socket that listens")
	if other := testenv.Need(unix.Open("/", unix.O_CLOEXEC, 0))(t); other != first {
		testenv.Must(t, unix.Dup3(other, first, unix.O_CLOEXEC))
		testenv.Must(t, unix.Close(other))
	}
	(&Change{Added: []*Point{p}}).Undo()
	testenv.Check(t, unix.Close(first), "another file is closed")
	testenv.ErrorIs(t, unix.Close(second), unix.EBADF, "the second socket is open")
	testenv.ErrorIs(t, unix.Close(third), unix.EBADF, "the third socket is open")
}

// TestChangeLeavesFilesOfSystemd: the file of a socket of systemd's stays, although the socket is served in another way since.
func TestChangeLeavesFilesOfSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd := testenv.Need(openSocket("unix:" + path))(t)
	before := &Point{Addr: "unix:" + path, sockets: []Socket{{FD: fd, Shared: true, Name: "unknown"}}}
	after := &Point{Addr: "unix:" + path, TLS: true}
	testenv.Must(t, capriccio.Run(t.Context(), func(ctx context.Context) error {
		testenv.Need(before.Listen(testenv.Quiet()))(t)
		c := testenv.Need(Plan([]*Point{before}, []*Point{after}))(t)
		testenv.Need(after.Listen(testenv.Quiet()))(t)
		c.Finish(ctx)
		after.Close()
		return nil
	}, capriccio.WithoutSignals(), capriccio.WithLoops(1)))
	testenv.Check(t, testenv.Err(os.Lstat(path)))
}
