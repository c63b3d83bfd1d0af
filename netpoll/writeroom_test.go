//go:build linux

package netpoll

import (
	"io"
	"math"
	"os"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestWriteRoom: a Write of the bytes that there is room for ends although the other end reads nothing. A full buffer has no
// room, until the other end reads.
func TestWriteRoom(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		inTask(t, rt, func() {
			for _, fill := range []int{0, 1, 10_000, 100_000} {
				here, there := connPair(t, "tcp")
				there.SetReadBuffer(4 << 10)
				here.SetWriteBuffer(256 << 10)
				testenv.Need(here.Write(make([]byte, fill)))(t)
				room := here.WriteRoom()
				if room < 64<<10 || room > 1<<20 {
					t.Errorf("%d bytes of room behind %d", room, fill)
				}
				here.SetWriteDeadline(time.Now().Add(time.Minute))
				testenv.Need(here.Write(make([]byte, room)))(t)
				here.Close()
				there.Close()
			}
			here, there := connPair(t, "tcp")
			sent := int64(0)
			for n := 1; n > 0 || here.WriteRoom() > 4<<10; sent += int64(n) { // the other end's buffer grows for a while
				var err error
				here.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
				n, err = here.Write(make([]byte, 64<<20))
				testenv.ErrorIs(t, err, os.ErrDeadlineExceeded, "a Write of far more")
			}
			testenv.Need(io.CopyN(io.Discard, there, sent))(t)
			testenv.Until(t, "there is room again", func() bool { return here.WriteRoom() > 64<<10 })
			here.Close()
			there.Close()
			here, there = connPair(t, "unix")
			testenv.Equal(t, here.WriteRoom(), math.MaxInt, "room of another kind of socket")
			here.Close()
			there.Close()
		})
	})
}
