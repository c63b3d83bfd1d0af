//go:build linux

package netpoll

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// Connections are written to and read from by tasks of any loop and by goroutines, with
// deadlines that pass, hooks, half closes, and sudden ends. What arrives is what was sent,
// up to the end, and nobody waits for ever.
func TestStorm(t *testing.T) {
	rng := testenv.Rand(t, *seedFlag)
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		var all sync.WaitGroup
		start := func(rng *rand.Rand, f func()) {
			all.Add(1)
			g := func() { defer all.Done(); f() }
			if rng.IntN(3) == 0 {
				go g()
			} else {
				engine.GoOn(rt.Loop(rng.IntN(rt.Loops())), g)
			}
		}
		conns := 30
		if testing.Short() {
			conns = 10
		}
		for range conns {
			d := need(Dial("tcp", ln.Addr().String()))(t)
			c := d.(*Conn)
			s := need(ln.AcceptConn())(t)
			sudden := rng.IntN(3) == 0
			size := rng.IntN(300_000)
			seed := rng.Uint64()
			start(rng, func() { stormWrite(t, rand.New(rand.NewPCG(seed, 5)), c, size, sudden) })
			start(rng, func() { stormRead(t, rand.New(rand.NewPCG(seed, 6)), s, size, sudden) })
		}
		all.Wait()
		must(t, ln.Close())
	})
}

// stormByte is what a connection carries at an offset.
func stormByte(at int) byte { return byte(at*7 + at>>8) }

func stormWrite(t *testing.T, rng *rand.Rand, c *Conn, size int, sudden bool) {
	defer c.Close()
	for at := 0; at < size; {
		if sudden && rng.IntN(40) == 0 {
			if rng.IntN(2) == 0 {
				c.SetLinger(0)
			}
			return
		}
		piece := make([]byte, 1+rng.IntN(min(size-at, 1<<(4+rng.IntN(12)))))
		for i := range piece {
			piece[i] = stormByte(at + i)
		}
		n, err := c.Write(piece)
		at += n
		if err != nil {
			if !sudden || !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("writing at %d of %d: %v", at, size, err)
			}
			return
		}
	}
	if !sudden {
		must(t, c.CloseWrite())
		if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("the writer reads %d bytes, %v, want io.EOF", n, err)
		}
	}
}

func stormRead(t *testing.T, rng *rand.Rand, s *Conn, size int, sudden bool) {
	defer s.Close()
	buf := make([]byte, 1<<(3+rng.IntN(14)))
	for at := 0; ; {
		switch rng.IntN(10) {
		case 0:
			s.SetReadDeadline(time.Now().Add(time.Duration(rng.IntN(300)) * time.Microsecond))
		case 1:
			readable := task.NewChan[bool](1)
			if err := s.OnReadable(func() { readable.Send(true) }); err != nil {
				t.Errorf("OnReadable: %v", err)
				return
			}
			readable.Recv()
		case 2:
			if sudden && rng.IntN(10) == 0 {
				return
			}
			rest(time.Duration(rng.IntN(200)) * time.Microsecond)
		}
		n, err := s.Read(buf)
		for i := range buf[:n] {
			if buf[i] != stormByte(at+i) {
				t.Errorf("byte %d is %d, want %d", at+i, buf[i], stormByte(at+i))
				return
			}
		}
		at += n
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.SetReadDeadline(time.Time{})
		case sudden && (err == io.EOF || errors.Is(err, unix.ECONNRESET)):
			return
		case err == io.EOF && at == size:
			return
		default:
			t.Errorf("reading at %d of %d: %v", at, size, err)
			return
		}
	}
}
