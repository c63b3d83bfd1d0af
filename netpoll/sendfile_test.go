//go:build linux

package netpoll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// scriptedPages is a file of which as much is in memory as a test says. Only one task at
// a time uses it.
type scriptedPages struct {
	*os.File
	resident func(off, n int64) int64
	fetched  int64 // end of what Prefetch has read
	reads    int
	ahead    atomic.Int64 // end of what Ahead was asked for
	moved    int
	err      error
}

func (p *scriptedPages) Resident(off, n int64) int64 { return p.resident(off, n) }

func (p *scriptedPages) Prefetch(off, n int64) error {
	p.fetched = max(p.fetched, off+n)
	engine.Yield()
	return p.err
}

func (p *scriptedPages) Moved() { p.moved++ }

func (p *scriptedPages) Ahead(off, n int64) { p.ahead.Store(off + n) }

func (p *scriptedPages) ReadAt(b []byte, off int64) (int, error) {
	p.reads++
	return p.File.ReadAt(b, off)
}

// all and none say what is in memory.
func all(_, n int64) int64  { return n }
func none(_, _ int64) int64 { return 0 }

func patternFile(t *testing.T, size int) (*os.File, []byte) {
	t.Helper()
	want := pattern(size)
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, want, 0o600))
	f := need(os.Open(path))(t)
	t.Cleanup(func() { f.Close() })
	return f, want
}

// sendAndRead sends by send, and returns what arrives until the connection is closed.
func sendAndRead(t *testing.T, network string, send func(c *Conn) (int64, error)) (got []byte, sent int64, err error) {
	t.Helper()
	c, s := connPair(t, network)
	join := spawn(func() {
		sent, err = send(c)
		c.Close()
	})
	got = need(io.ReadAll(s))(t)
	must(t, join())
	return got, sent, err
}

func TestSendFile(t *testing.T) {
	both(t, func(t *testing.T) {
		const size = 3<<20 + 777
		f, want := patternFile(t, size)
		head := []byte("what comes first\n")
		for _, network := range []string{"tcp", "unix"} {
			for _, part := range []struct{ off, n int64 }{{0, size}, {12345, 1_000_001}, {size - 1, 1}, {7, 0}} {
				got, sent, err := sendAndRead(t, network, func(c *Conn) (int64, error) {
					return (*inner)(c).SendFile(head, int(f.Fd()), part.off, part.n, nil)
				})
				testenv.True(t, err == nil && sent == part.n && bytes.Equal(got, append(head[:len(head):len(head)], want[part.off:part.off+part.n]...)),
					"%s: %d bytes from %d: %d sent, %d arrived, %v", network, part.n, part.off, sent, len(got), err)
			}
		}
	})
}

// TestSendFileOfPages: what is in memory changes all the time, and all that is sent is
// right.
func TestSendFileOfPages(t *testing.T) {
	const size = 2<<20 + 99
	both(t, func(t *testing.T) {
		f, want := patternFile(t, size)
		turn := 0
		for name, resident := range map[string]func(off, n int64) int64{
			"all": all, "none": none,
			"unknown": func(_, n int64) int64 { return -1 },
			"now and then": func(_, n int64) int64 {
				turn++
				return min(int64(turn*7919)%n*int64(turn%3), n)
			},
		} {
			p := &scriptedPages{File: f, resident: resident}
			got, sent, err := sendAndRead(t, "tcp", func(c *Conn) (int64, error) {
				return (*inner)(c).SendFile(nil, int(f.Fd()), 0, size, p)
			})
			testenv.True(t, err == nil && sent == size && bytes.Equal(got, want), "%s: %d sent, %d arrived, %v", name, sent, len(got), err)
			testenv.AtLeast(t, p.moved, size/sendfileMax, "%s: told N times that the client has taken a part", name)
			testenv.AtMost(t, p.moved, size/reportEvery, "%s: told N times that the client has taken a part", name)
			copied := name == "none" || name == "unknown"
			// Now and then what was fetched is gone again at once, and copied.
			testenv.True(t, (p.reads > 0) == copied || name == "now and then", "%s: %d reads", name, p.reads)
			fetched := name == "none" || name == "now and then"
			testenv.True(t, fetched == (p.fetched > 0) && fetched == (p.ahead.Load() > 0),
				"%s: fetched up to %d, asked ahead up to %d", name, p.fetched, p.ahead.Load())
		}
	})
}

// What is sent at a time of a long file is whole segments of its connection, whose size the kernel tells.
func TestSendFileInWholeSegments(t *testing.T) {
	const size = 2<<20 + 99
	both(t, func(t *testing.T) {
		f, want := patternFile(t, size)
		var most int64
		var segment int
		p := &scriptedPages{File: f, resident: func(_, n int64) int64 { most = max(most, n); return n }}
		got, _, err := sendAndRead(t, "tcp", func(c *Conn) (n int64, err error) {
			if segment, err = sys.Option(int(c.d.fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG); err != nil {
				return 0, err
			}
			return (*inner)(c).SendFile(nil, int(f.Fd()), 0, size, p)
		})
		must(t, err)
		testenv.True(t, bytes.Equal(got, want), "%d bytes arrived", len(got))
		testenv.True(t, most > sendfileMax/2 && most%int64(segment) == 0, "%d bytes at a time, of segments of %d", most, segment)
	})
}

// TestSendFileThatEnds: the file is shorter than it was.
func TestSendFileThatEnds(t *testing.T) {
	both(t, func(t *testing.T) {
		f, want := patternFile(t, 100_000)
		for _, pages := range []ownconn.Pages{nil, &scriptedPages{File: f, resident: all}, &scriptedPages{File: f, resident: none}} {
			got, sent, err := sendAndRead(t, "tcp", func(c *Conn) (int64, error) {
				return (*inner)(c).SendFile(nil, int(f.Fd()), 10, 200_000, pages)
			})
			testenv.True(t, err == io.ErrUnexpectedEOF && sent == 99_990 && bytes.Equal(got, want[10:]),
				"%d sent, %d arrived, %v", sent, len(got), err)
		}
	})
}

func TestSendFileErrors(t *testing.T) {
	both(t, func(t *testing.T) {
		const size = 16 << 20 // more than the buffers of a connection take
		f, _ := patternFile(t, size)
		c, _ := connPair(t, "tcp")
		must(t, c.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
		sent, err := (*inner)(c).SendFile([]byte("head"), int(f.Fd()), 0, size, &scriptedPages{File: f, resident: all})
		testenv.True(t, errors.Is(err, os.ErrDeadlineExceeded) && sent < size, "deadline: %d sent, %v", sent, err)
		must(t, c.SetWriteDeadline(time.Time{}))
		join := spawn(func() {
			awaitWaiter(&c.d.write)
			c.Close()
		})
		sent, err = (*inner)(c).SendFile(nil, int(f.Fd()), 0, size, nil)
		testenv.True(t, errors.Is(err, net.ErrClosed) && sent < size, "closed meanwhile: %d sent, %v", sent, err)
		must(t, join())
		testenv.ErrorIs(t, testenv.Err((*inner)(c).SendFile([]byte("head"), int(f.Fd()), 0, 1, nil)), net.ErrClosed, "closed")
	})
}

// TestSendFileReadFails: the file can't be read; the connection still can be used.
func TestSendFileReadFails(t *testing.T) {
	both(t, func(t *testing.T) {
		f, _ := patternFile(t, 1000)
		broken := errors.New("broken")
		got, sent, err := sendAndRead(t, "tcp", func(c *Conn) (int64, error) {
			n, err := (*inner)(c).SendFile([]byte("head"), int(f.Fd()), 0, 1000, &scriptedPages{File: f, err: broken, resident: none})
			c.Write([]byte("!"))
			return n, err
		})
		testenv.True(t, errors.Is(err, broken) && sent == 0 && string(got) == "head!", "%d sent, %q arrived, %v", sent, got, err)
		// sendfile(2) refuses a directory, and so does read(2).
		d := need(os.Open(t.TempDir()))(t)
		defer d.Close()
		_, _, err = sendAndRead(t, "tcp", func(c *Conn) (int64, error) { return (*inner)(c).SendFile(nil, int(d.Fd()), 0, 1000, nil) })
		testenv.Fails(t, err, "sending a directory")
	})
}

// A sendfile that may wait, of what is not known to be in memory, keeps its loop but not the Go
// scheduler: the garbage collector goes on. Where it does not, the whole process
// stands still, so a child tries it.
func TestSendfileThatWaitsStopsNobodyElse(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+sendfileChild)
	out, err := child.CombinedOutput()
	testenv.True(t, err == nil, "the child, whose sendfile waits while it collects garbage: %v, %s", err, out)
}

const sendfileChild = "sendfile"

// runSendfileChild collects garbage while a sendfile waits: for room in a pipe, which takes as
// long as the test lets it, unlike a disk.
func runSendfileChild() int {
	runtime.GOMAXPROCS(2)
	rt, err := engine.New(engine.Config{Loops: 1, NewPoller: func(int) (engine.Poller, error) { return newEpoll() }})
	check(err)
	file, err := os.CreateTemp("", "sendfile")
	check(err)
	check(os.Remove(file.Name()))
	_, err = file.Write(make([]byte, 4096))
	check(err)
	var p [2]int
	check(unix.Pipe(p[:]))
	check(unix.SetNonblock(p[1], true))
	for err == nil {
		_, err = unix.Write(p[1], make([]byte, 4096))
	}
	check(unix.SetNonblock(p[1], false))
	d := &desc{fd: int32(p[1]), kind: kindFile, loop: rt.Loop(0), poller: nullRegistrar{}}
	d.write.p.Store(ready)
	thread := make(chan int)
	sent := make(chan error)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		n, err := d.sendfilePart(int(file.Fd()), 0, 4096, false)
		if n != 4096 && err == nil {
			err = io.ErrShortWrite
		}
		sent <- err
	}()
	in := fmt.Sprintf("/proc/self/task/%d/syscall", <-thread)
	for {
		what, err := os.ReadFile(in)
		check(err)
		if strings.HasPrefix(string(what), fmt.Sprint(unix.SYS_SENDFILE)+" ") {
			break
		}
		breathe(100 * time.Microsecond)
	}
	runtime.GC()
	select {
	case err := <-sent:
		fmt.Println("sendfile did not wait:", err)
		return 1
	default:
	}
	_, err = unix.Read(p[0], make([]byte, 8192))
	check(err)
	check(<-sent)
	return 0
}

// A client with a tiny window, which reads nothing, gets the kernel to take little of a large answer: segments of some
// hundred bytes are as dear as large ones.
func TestTinySegmentsDoNotFillTheSendBuffer(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := listen(t, "tcp4")
		f, data := patternFile(t, 4<<20)
		for name, send := range map[string]func(c *Conn) (int64, error){
			"SendFile":     func(c *Conn) (int64, error) { return (*inner)(c).SendFile(nil, int(f.Fd()), 0, 4<<20, nil) },
			"Write":        func(c *Conn) (int64, error) { n, err := c.Write(data); return int64(n), err },
			"WriteBuffers": func(c *Conn) (int64, error) { return c.WriteBuffers(&net.Buffers{data[:2<<20], data[2<<20:]}) },
		} {
			fd := need(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
			must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
			must(t, unix.Connect(fd, &unix.SockaddrInet4{Port: ln.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}))
			c := accept(t, ln)
			must(t, c.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
			n, err := send(c)
			testenv.ErrorIs(t, err, os.ErrDeadlineExceeded, name)
			testenv.AtMost(t, n, 256<<10, "%s: bytes that were taken", name)
			const other = 1 << 20
			must(t, sys.SetOption(int(c.d.fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, other))
			c.d.spare(4 << 20)
			testenv.Got(sys.Option(int(c.d.fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT))(t, other, "%s: when the segments are not looked at again", name)
			unix.Close(fd)
		}
	})
}

// largePipes reports whether this process may have pipes as large as splice wants them.
func largePipes() bool {
	var pipe [2]int
	if unix.Pipe2(pipe[:], unix.O_CLOEXEC) != nil {
		return false
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	size, err := unix.FcntlInt(uintptr(pipe[1]), unix.F_SETPIPE_SZ, splicePipe)
	return err == nil && size >= splicePipe
}

// What comes in pieces of any size gets through whole, and what is there in bulk without a copy.
func TestRelay(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, networks := range [][2]string{{"unix", "tcp"}, {"tcp", "unix"}, {"tcp", "tcp"}} {
			from, in := connPair(t, networks[0])
			out, to := connPair(t, networks[1])
			want := pattern(5<<20 + 17)
			const first = 2 * copySize // a unix socket takes that though nobody reads
			begin := first
			if networks[0] == "tcp" {
				begin = 1
			}
			need(from.Write(want[:begin]))(t)
			relay := spawn(func() {
				n, spliced, err := out.relay(in, make([]byte, copySize))
				testenv.Got(n, err)(t, int64(len(want)), "%v: relayed", networks)
				may := out.maySplice(in) && largePipes()
				testenv.True(t, begin != first || (spliced > 0) == may, "%v: %d bytes went through a pipe; may they: %v", networks, spliced, may)
				must(t, out.CloseWrite())
			})
			writer := spawn(func() {
				rnd := rand.New(rand.NewPCG(1, 2))
				for rest := want[begin:]; len(rest) > 0; {
					n := need(from.Write(rest[:min(1+rnd.IntN(300_000), len(rest))]))(t)
					rest = rest[n:]
				}
				must(t, from.CloseWrite())
			})
			sameBytes(t, need(io.ReadAll(to))(t), want, strings.Join(networks[:], " to "))
			must(t, relay())
			must(t, writer())
		}
	})
}

// A relay whose receiver goes away in the middle of bulk data ends with the error, and leaves no pipe:
// both asks for that.
func TestRelayToOneThatGoes(t *testing.T) {
	both(t, func(t *testing.T) {
		from, in := connPair(t, "unix")
		out, to := connPair(t, "tcp")
		writer := spawn(func() {
			for err := error(nil); err == nil; {
				_, err = from.Write(pattern(copySize))
			}
		})
		relay := spawn(func() {
			_, _, err := out.relay(in, make([]byte, copySize))
			testenv.True(t, errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE), "the receiver has gone: %v, want ECONNRESET or EPIPE", err)
			must(t, in.Close())
		})
		need(io.ReadFull(to, make([]byte, 1<<20)))(t)
		must(t, to.SetLinger(0))
		must(t, to.Close())
		must(t, relay())
		must(t, writer())
	})
}
