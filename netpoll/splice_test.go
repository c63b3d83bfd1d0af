//go:build linux

package netpoll

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

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
				must(t, err)
				if n != int64(len(want)) {
					t.Errorf("%v: relayed %d bytes, want %d", networks, n, len(want))
				}
				if may := out.maySplice(in) && largePipes(); begin == first && (spliced > 0) != may {
					t.Errorf("%v: %d bytes went through a pipe; may they: %v", networks, spliced, may)
				}
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
			got := need(io.ReadAll(to))(t)
			must(t, relay())
			must(t, writer())
			if !bytes.Equal(got, want) {
				t.Errorf("%v: got %d bytes that differ from the %d sent", networks, len(got), len(want))
			}
			for _, c := range []*Conn{from, in, out, to} {
				must(t, c.Close())
			}
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
			if !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
				t.Errorf("the receiver has gone: %v, want ECONNRESET or EPIPE", err)
			}
			must(t, in.Close())
		})
		need(io.ReadFull(to, make([]byte, 1<<20)))(t)
		must(t, to.SetLinger(0))
		must(t, to.Close())
		must(t, relay())
		must(t, writer())
		must(t, from.Close())
		must(t, out.Close())
	})
}
