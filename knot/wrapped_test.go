package knot

import (
	"net"
	"reflect"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
)

// wrappedConn holds a connection in a field that is not exported, as netutil.LimitListener and libraries for the PROXY
// protocol do.
type wrappedConn struct {
	net.Conn
	inner net.Conn
	_     sync.Once
}

// TestWrappedConnsKeepTheirTasks: a connection is served by a task if it is one of netpoll, however it is wrapped.
func TestWrappedConnsKeepTheirTasks(t *testing.T) {
	for inner, want := range map[net.Conn]bool{new(netpoll.Conn): true, new(net.TCPConn): false, new(http2Request): true} {
		for i, nc := range []net.Conn{inner, struct{ net.Conn }{inner}, &wrappedConn{inner: inner}, struct{ net.Conn }{&wrappedConn{inner: inner}}} {
			testenv.Equal(t, parks(reflect.ValueOf(nc)), want, "%T, wrapped in way %d", inner, i)
		}
	}
}
