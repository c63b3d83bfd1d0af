//go:build linux

package netpoll

import (
	"io"
	"net"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestWriteNow: WriteNow takes what the socket has room for, nothing from then on, and more when the other end has read.
func TestWriteNow(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		writeNow(t) // on a goroutine, then as a task
		inTask(t, rt, func() { writeNow(t) })
	})
}

func writeNow(t *testing.T) {
	here, there := connPair(t, "tcp")
	defer there.Close()
	content := make([]byte, 64<<10)
	sent := 0
	for {
		n := testenv.Need(here.WriteNow(content))(t)
		if sent += n; n == 0 {
			break
		}
	}
	if room := here.WriteRoom(); room > len(content) {
		t.Errorf("room for %d bytes beside a WriteNow that took none", room)
	}
	if n := testenv.Need(io.ReadFull(there, make([]byte, sent)))(t); n != sent {
		t.Errorf("%d bytes have come of %d", n, sent)
	}
	more := 0
	for more == 0 {
		more = testenv.Need(here.WriteNow(content))(t)
		engine.Yield()
	}
	testenv.Need(here.Write(content))(t)
	testenv.Need(io.ReadFull(there, make([]byte, more+len(content))))(t)
	here.Close()
	testenv.ErrorIs(t, testenv.Err(here.WriteNow(content)), net.ErrClosed, "after Close")
}
