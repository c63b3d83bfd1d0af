//go:build linux

package cookbook

import (
	"io"
	"net"
	"time"

	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// A Relay passes connections on to a backend, and closes them when no byte has passed for Idle in a direction.
type Relay struct {
	Backend string
	Idle    time.Duration
}

// Serve is the handler of a connection: netpoll.Serve(ln, relay.Serve).
func (r *Relay) Serve(client *netpoll.Conn) {
	defer client.Close()
	backend, err := netpoll.DialTimeout("tcp", r.Backend, 5*time.Second)
	if err != nil {
		return
	}
	defer backend.Close()
	up := task.Go(func() { r.pass(backend, client) })
	r.pass(client, backend)
	up.Join()
}

// pass copies until the end of what from says, and then ends what to hears.
func (r *Relay) pass(to, from net.Conn) {
	_, err := io.Copy(to, idleReader{from, r.Idle})
	if err != nil { // the other direction ends, too
		to.Close()
		from.Close()
		return
	}
	to.(interface{ CloseWrite() error }).CloseWrite()
}

// An idleReader is a connection whose Read fails after idle without data. Moving a deadline costs a few nanoseconds: its
// timer is set anew only when it fires.
type idleReader struct {
	net.Conn
	idle time.Duration
}

func (r idleReader) Read(b []byte) (int, error) {
	r.SetReadDeadline(time.Now().Add(r.idle))
	return r.Conn.Read(b)
}
