//go:build linux

package netpoll

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// steady is an operation that never has to wait: more is there, or more room, than the test uses.
type steady struct {
	name string
	open func(t *testing.T) (do func() error, stop func())
}

// steadyCalls is how often a test does it. A datagram takes up to 1 KB of a socket's buffer,
// which has 200 KB.
const steadyCalls = 150

func steadies() []steady {
	stream := func(network string, do func(c, s *Conn) func() error) func(t *testing.T) (func() error, func()) {
		return func(t *testing.T) (func() error, func()) {
			c, s := connPair(t, network)
			return do(c, s), func() { c.Close(); s.Close() }
		}
	}
	var small [16]byte
	reads := func(c, s *Conn) func() error {
		need(c.Write(make([]byte, steadyCalls*len(small))))(nil)
		return func() error { _, err := s.Read(small[:]); return err }
	}
	writes := func(c, s *Conn) func() error {
		return func() error { _, err := c.Write(small[:]); return err }
	}
	vectors := func(c, s *Conn) func() error {
		return func() error { _, err := c.WriteBuffers(&net.Buffers{small[:]}); return err }
	}
	pipe := func(do func(r, w *File) func() error) func(t *testing.T) (func() error, func()) {
		return func(t *testing.T) (func() error, func()) {
			r, w, err := Pipe()
			must(t, err)
			return do(r, w), func() { r.Close(); w.Close() }
		}
	}
	return []steady{
		{"tcp read", stream("tcp", reads)},
		{"unix read", stream("unix", reads)},
		{"tcp write", stream("tcp", writes)},
		{"unix write", stream("unix", writes)},
		{"tcp writev", stream("tcp", vectors)},
		{"pipe read", pipe(func(r, w *File) func() error {
			need(w.Write(make([]byte, steadyCalls*len(small))))(nil)
			return func() error { _, err := r.Read(small[:]); return err }
		})},
		{"pipe write", pipe(func(r, w *File) func() error {
			return func() error { _, err := w.Write(small[:]); return err }
		})},
		{"udp receive", func(t *testing.T) (func() error, func()) { return datagrams(t, true) }},
		{"udp send", func(t *testing.T) (func() error, func()) { return datagrams(t, false) }},
		{"accept", accepts},
		{"raw", stream("tcp", func(c, s *Conn) func() error {
			raw := need(s.SyscallConn())(nil)
			return func() error { return raw.Read(func(uintptr) bool { return true }) }
		})},
	}
}

func datagrams(t *testing.T, receive bool) (func() error, func()) {
	a := need(ListenPacket("udp", "127.0.0.1:0"))(t)
	b := need(ListenPacket("udp", "127.0.0.1:0"))(t)
	var small [16]byte
	send := func() error { _, err := a.WriteTo(small[:], b.LocalAddr()); return err }
	do := send
	if receive {
		for range steadyCalls {
			must(t, send())
		}
		do = func() error { _, _, err := b.ReadFrom(small[:]); return err }
	}
	return do, func() { a.Close(); b.Close() }
}

func accepts(t *testing.T) (func() error, func()) {
	ln := need(Listen("tcp", "127.0.0.1:0"))(t)
	var all []net.Conn
	for range steadyCalls {
		c := need(Dial("tcp", ln.Addr().String()))(t)
		all = append(all, c)
	}
	do := func() error {
		c, err := ln.AcceptConn()
		all = append(all, c)
		return err
	}
	return do, func() {
		for _, c := range all {
			c.Close()
		}
		ln.Close()
	}
}

// A task that never has to wait gives others of its loop a turn all the same. How many
// operations it does between two turns of another is counted, so that the speed of the
// machine does not matter.
func TestWhoNeverWaitsGivesWay(t *testing.T) {
	for _, p := range pollers {
		for _, loops := range []int{1, 2} {
			s := setting{p.name, p.open, loops}
			t.Run(p.name, func(t *testing.T) {
				rt := s.start(t)
				for _, x := range steadies() {
					for at := range loops {
						t.Run(x.name, func(t *testing.T) { givesWay(t, rt, x, at) })
					}
				}
			})
		}
	}
}

// givesWay does x on loop at; its descriptors belong to loop 0.
func givesWay(t *testing.T, rt *engine.Runtime, x steady, at int) {
	var do func() error
	var stop func()
	must(t, engine.GoOn(rt.Loop(0), func() { do, stop = x.open(t) }).Join())
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
		if most > 65 { // Loop.Pace
			t.Errorf("%d operations without a turn of the other task, want 65 at most", most)
		}
	}).Join())
	must(t, engine.GoOn(rt.Loop(0), stop).Join())
}

// A long file is sent in turns, to where there is always room, and is not looked for in memory again after each.
func TestLongFilesAreSentInTurns(t *testing.T) {
	const cut = 100
	const size = cut + 4*sendfileMax + 1
	fd, err := unix.MemfdCreate("long", unix.MFD_CLOEXEC) // of another file the kernel may have a part in memory only
	must(t, err)
	f := os.NewFile(uintptr(fd), "long")
	defer f.Close()
	must(t, f.Truncate(size))
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(t, err)
	defer nowhere.Close()
	asked := 0
	everything := &scriptedPages{File: f, resident: func(_, n int64) int64 { asked++; return n }}
	for _, pages := range []Pages{everything, nil} {
		rt := setting{"epoll", newEpoll, 1}.start(t)
		must(t, engine.GoOn(rt.Loop(0), func() {
			c := new(Conn)
			c.d.fd, c.d.kind, c.d.loop, c.d.poller = int32(nowhere.Fd()), kindFile, rt.Loop(0), nullRegistrar{}
			c.d.write.p.Store(ready)
			// As after a call that has sent less than it was given.
			s := &fileSend{c: c, pages: pages, fd: fd, off: cut, sent: cut, burst: cut, left: size - cut}
			var most, before int64
			other := engine.GoOn(rt.Loop(0), func() {
				for s.left > 0 {
					most, before = max(most, s.sent-before), s.sent
					engine.Yield()
				}
			})
			must(t, s.run())
			must(t, other.Join())
			want := int64(sendfileRaw)
			if pages == nil { // which may wait, and then a call more costs more
				want = sendfileMax
			}
			if s.sent != size || most != want {
				t.Errorf("%d bytes sent, %d in one turn, want %d and %d", s.sent, most, size, want)
			}
		}).Join())
	}
	testenv.Equal(t, asked, (size-cut)/sendfileMax+1, "asked N times what is in memory")
}

// What is too much for one system call arrives in order, and a datagram is never cut.
func TestLongWritesArePieces(t *testing.T) {
	all := make([]byte, 3*pieceMax+12345)
	for i := range all {
		all[i] = byte(i * 7 >> 3)
	}
	for k, want := range map[kind]int{kindTCP: pieceMax, kindStream: pieceMax, kindPipe: pieceMax, kindDatagram: len(all)} {
		testenv.Equal(t, len((&desc{kind: k}).piece(all)), want, "a piece of N bytes for kind %d", k)
	}
	both(t, func(t *testing.T) {
		c, s := connPair(t, "tcp")
		defer c.Close()
		defer s.Close()
		for name, write := range map[string]func() (int64, error){
			"Write": func() (int64, error) { n, err := c.Write(all); return int64(n), err },
			"WriteBuffers": func() (int64, error) {
				return c.WriteBuffers(&net.Buffers{all[:10], all[10 : pieceMax+1], all[pieceMax+1:]})
			},
		} {
			join := spawn(func() {
				got := make([]byte, len(all))
				need(io.ReadFull(s, got))(t)
				if !bytes.Equal(got, all) {
					t.Errorf("%s: other bytes arrived", name)
				}
			})
			testenv.Got(write())(t, int64(len(all)), "%s: N of %d", name, len(all))
			must(t, join())
		}
	})
}

// A WriteBuffers that never has to wait for room notices between two calls that its time is over.
func TestWriteBuffersMeetsItsDeadline(t *testing.T) {
	inTask(t, onOne(t, 1).start(t), func() {
		c, s := connPair(t, "unix")
		defer c.Close()
		defer s.Close()
		must(t, c.SetWriteBuffer(1<<20))
		bufs := make(net.Buffers, 80*maxIovecs) // more calls than a task makes without a turn of others
		for i := range bufs {
			bufs[i] = []byte{1}
		}
		late := engine.Go(func() { must(t, c.SetWriteDeadline(time.Unix(1, 0))) })
		if n, err := c.WriteBuffers(&bufs); !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 {
			t.Errorf("wrote %d bytes, %v; want some and os.ErrDeadlineExceeded", n, err)
		}
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
		defer c.Close()
		defer s.Close()
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
	if s := unsafe.Sizeof(Conn{}); s > 208 {
		t.Errorf("a Conn has %d bytes, want at most 208", s)
	}
	if s := unsafe.Sizeof(deadlines{}); s > 128 {
		t.Errorf("deadlines have %d bytes, want at most 128", s)
	}
	if s := unsafe.Sizeof(tableChunk{}); s > 3200-8 {
		t.Errorf("a chunk of the table has %d bytes, want at most 3192", s)
	}
}
