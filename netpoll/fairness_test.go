//go:build linux

package netpoll

import (
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// steadyCalls is how often a test does what never has to wait. A datagram takes up to 1 KB of a socket's buffer, which has
// 200 KB.
const steadyCalls = 150

// steadies are operations that never have to wait: more is there, or more room, than the test uses.
var steadies = map[string]func(t *testing.T) (do func() error){
	"tcp read":   func(t *testing.T) func() error { return readsOfMuch(connPair(t, "tcp")) },
	"unix read":  func(t *testing.T) func() error { return readsOfMuch(connPair(t, "unix")) },
	"pipe read":  func(t *testing.T) func() error { r, w := pipe(t); return readsOfMuch(w, r) },
	"tcp write":  func(t *testing.T) func() error { c, _ := connPair(t, "tcp"); return writesTo(c) },
	"unix write": func(t *testing.T) func() error { c, _ := connPair(t, "unix"); return writesTo(c) },
	"pipe write": func(t *testing.T) func() error { _, w := pipe(t); return writesTo(w) },
	"tcp writev": func(t *testing.T) func() error {
		c, _ := connPair(t, "tcp")
		return func() error { return testenv.Err(c.WriteBuffers(&net.Buffers{make([]byte, 16)})) }
	},
	"udp send": func(t *testing.T) func() error {
		a, b := listenPacket(t, "udp"), listenPacket(t, "udp")
		return func() error { return testenv.Err(a.WriteTo(make([]byte, 16), b.LocalAddr())) }
	},
	"udp receive": func(t *testing.T) func() error {
		a, b := listenPacket(t, "udp"), listenPacket(t, "udp")
		for range steadyCalls {
			need(a.WriteTo(make([]byte, 16), b.LocalAddr()))(t)
		}
		return func() error { _, _, err := b.ReadFrom(make([]byte, 16)); return err }
	},
	"accept": func(t *testing.T) func() error {
		ln := listen(t, "tcp")
		for range steadyCalls {
			dial(t, ln.Addr())
		}
		return func() error { closing(t, need(ln.AcceptConn())(t)); return nil }
	},
	"raw": func(t *testing.T) func() error {
		c, _ := connPair(t, "tcp")
		raw := need(c.SyscallConn())(t)
		return func() error { return raw.Read(func(uintptr) bool { return true }) }
	},
}

func readsOfMuch(w io.Writer, r io.Reader) func() error {
	check(testenv.Err(w.Write(make([]byte, steadyCalls*16))))
	return func() error { return testenv.Err(r.Read(make([]byte, 16))) }
}

func writesTo(w io.Writer) func() error {
	return func() error { return testenv.Err(w.Write(make([]byte, 16))) }
}

// A task that never has to wait gives others of its loop a turn all the same. How many
// operations it does between two turns of another is counted, so that the speed of the
// machine does not matter.
func TestWhoNeverWaitsGivesWay(t *testing.T) {
	for _, p := range pollers {
		for _, loops := range []int{1, 2} {
			t.Run(p.name, func(t *testing.T) {
				rt := setting{p.name, p.open, loops}.start(t)
				for name, open := range steadies {
					for at := range loops {
						t.Run(name, func(t *testing.T) { givesWay(t, rt, open, at) })
					}
				}
			})
		}
	}
}

// givesWay does on loop at what belongs to loop 0.
func givesWay(t *testing.T, rt *engine.Runtime, open func(*testing.T) (do func() error), at int) {
	var do func() error
	must(t, engine.GoOn(rt.Loop(0), func() { do = open(t) }).Join())
	must(t, engine.GoOn(rt.Loop(at), func() {
		done, most, since := false, 0, 0
		other := engine.GoOn(rt.Loop(at), func() {
			for !done {
				most, since = max(most, since), 0
				engine.Yield()
			}
		})
		engine.Yield()
		for range steadyCalls {
			since++
			must(t, do())
		}
		most = max(most, since)
		done = true
		must(t, other.Join())
		testenv.AtMost(t, most, 65, "operations without a turn of the other task") // Loop.Pace
	}).Join())
}

// A long file is sent in turns, to where there is always room, and is not looked for in memory again after each.
func TestLongFilesAreSentInTurns(t *testing.T) {
	const cut = 100
	const size = cut + 4*sendfileMax + 1
	fd := need(unix.MemfdCreate("long", unix.MFD_CLOEXEC))(t) // of another file the kernel may have a part in memory only
	f := os.NewFile(uintptr(fd), "long")
	defer f.Close()
	must(t, f.Truncate(size))
	nowhere := need(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(t)
	defer nowhere.Close()
	asked := 0
	everything := &scriptedPages{File: f, resident: func(_, n int64) int64 { asked++; return n }}
	for _, test := range []struct {
		pages   ownconn.Pages
		segment int64
		want    int64 // bytes in one turn
	}{
		{everything, 1, sendfileRaw},
		{everything, 65483, 8 * 65483}, // the loopback interface's
		{nil, 1, sendfileMax},          // a call may wait, and then another one costs more
	} {
		rt := setting{"epoll", newEpoll, 1}.start(t)
		must(t, engine.GoOn(rt.Loop(0), func() {
			c := new(Conn)
			c.d.fd, c.d.kind, c.d.loop, c.d.poller = int32(nowhere.Fd()), kindFile, rt.Loop(0), nullRegistrar{}
			c.d.write.p.Store(ready)
			// As after a call that has sent less than it was given.
			s := &fileSend{c: c, pages: test.pages, fd: fd, off: cut, sent: cut, burst: cut, left: size - cut, piece: wholeSegments(test.segment)}
			var most, before int64
			other := engine.GoOn(rt.Loop(0), func() {
				for s.left > 0 {
					most, before = max(most, s.sent-before), s.sent
					engine.Yield()
				}
			})
			must(t, s.run())
			must(t, other.Join())
			testenv.Equal(t, s.sent, size, "bytes sent")
			testenv.Equal(t, most, test.want, "bytes in one turn")
		}).Join())
	}
	testenv.Equal(t, asked, 2*((size-cut)/sendfileMax+1), "asked N times what is in memory")
}

// What is too much for one system call arrives in order, and a datagram is never cut.
func TestLongWritesArePieces(t *testing.T) {
	all := pattern(3*pieceMax + 12345)
	for k, want := range map[kind]int{kindTCP: pieceMax, kindStream: pieceMax, kindPipe: pieceMax, kindDatagram: len(all)} {
		testenv.Equal(t, len((&desc{kind: k}).piece(all)), want, "a piece of N bytes for kind %d", k)
	}
	both(t, func(t *testing.T) {
		c, s := connPair(t, "tcp")
		for name, write := range map[string]func() (int64, error){
			"Write": func() (int64, error) { n, err := c.Write(all); return int64(n), err },
			"WriteBuffers": func() (int64, error) {
				return c.WriteBuffers(&net.Buffers{all[:10], all[10 : pieceMax+1], all[pieceMax+1:]})
			},
		} {
			join := spawn(func() {
				got := make([]byte, len(all))
				need(io.ReadFull(s, got))(t)
				sameBytes(t, got, all, name)
			})
			testenv.Got(write())(t, int64(len(all)), name)
			must(t, join())
		}
	})
}

// A WriteBuffers that never has to wait for room notices between two calls that its time is over.
func TestWriteBuffersMeetsItsDeadline(t *testing.T) {
	inTask(t, onOne(t, 1).start(t), func() {
		c, _ := connPair(t, "unix")
		must(t, c.SetWriteBuffer(1<<20))
		bufs := make(net.Buffers, 80*maxIovecs) // more calls than a task makes without a turn of others
		for i := range bufs {
			bufs[i] = []byte{1}
		}
		late := engine.Go(func() { must(t, c.SetWriteDeadline(time.Unix(1, 0))) })
		n, err := c.WriteBuffers(&bufs)
		testenv.ErrorIs(t, err, os.ErrDeadlineExceeded)
		testenv.AtLeast(t, n, 1, "bytes written")
		must(t, late.Join())
	})
}

// pingPong passes one byte to and fro, n times.
func pingPong(tb testing.TB, a, b io.ReadWriter, n int) {
	other := spawn(func() {
		var buf [64]byte
		for range n {
			need(b.Read(buf[:]))(tb)
			need(b.Write(buf[:1]))(tb)
		}
	})
	var buf [64]byte
	for range n {
		need(a.Write(buf[:1]))(tb)
		need(a.Read(buf[:]))(tb)
	}
	must(tb, other())
}

func TestNoAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	for _, x := range pollers {
		t.Run(x.name, func(t *testing.T) { noAllocation(t, setting{x.name, x.open, 1}.start(t)) })
	}
}

func noAllocation(t *testing.T, rt *engine.Runtime) {
	inTask(t, rt, func() {
		c, s := connPair(t, "tcp")
		far := time.Now().Add(time.Hour)
		must(t, s.SetReadDeadline(far))
		pingPong(t, c, s, 100) // fill the pools
		const n = 2000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		pingPong(t, c, s, n)
		for i := range n {
			must(t, s.SetReadDeadline(far.Add(time.Duration(i))))
		}
		runtime.ReadMemStats(&after)
		testenv.AtMost(t, float64(after.Mallocs-before.Mallocs)/n, 0.1, "allocations a round trip")
	})
}

// Most connections of a server are idle. These are size classes of the allocator, or with what it adds.
func TestConnectionsAreSmall(t *testing.T) {
	testenv.AtMost(t, unsafe.Sizeof(Conn{}), 208, "bytes of a Conn")
	testenv.AtMost(t, unsafe.Sizeof(deadlines{}), 128, "bytes of deadlines")
	testenv.AtMost(t, unsafe.Sizeof(tableChunk{}), 3200-8, "bytes of a chunk of the table")
}
