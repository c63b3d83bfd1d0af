package nethttp

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// contextOn is the context of a request on a connection, whose other end is returned too.
func contextOn(t *testing.T) (c *Context, client net.Conn) {
	ln := testenv.Listen(t)
	client = testenv.Dial(t, ln.Addr().String())
	nc := testenv.Need(ln.Accept())(t)
	t.Cleanup(func() { nc.Close() })
	return &Context{Server: new(http.Server), Conn: nc, Parents: [...]context.Context{t.Context(), context.Background()}}, client
}

// Contexts made of a request's end with it, and do not take a goroutine each.
func TestContextsDerive(t *testing.T) {
	type key struct{}
	c, _ := contextOn(t)
	ctx, cancel := context.WithTimeout(context.WithValue(c, key{}, "v"), time.Hour)
	defer cancel()
	testenv.Equal(t, ctx.Value(key{}), any("v"))
	testenv.Equal(t, ctx.Value(http.ServerContextKey), any(c.Server))
	testenv.Equal(t, ctx.Value(http.LocalAddrContextKey), any(c.Conn.LocalAddr()))
	testenv.Check(t, ctx.Err())
	stop := context.AfterFunc(ctx, func() { t.Error("a stopped function ran") })
	testenv.Equal(t, stop(), true, "it has been stopped")
	ran := make(chan bool)
	context.AfterFunc(ctx, func() { close(ran) })
	c.End()
	<-ctx.Done()
	<-ran
	testenv.Equal(t, ctx.Err(), context.Canceled)
	testenv.Equal(t, c.Err(), context.Canceled)
}

// What ends a context, once its end has been asked for.
func TestWhatEndsAContext(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(client net.Conn, parent, std context.CancelFunc)
		ends bool // also when the connection has been hijacked
	}{
		"the client leaves":     {func(client net.Conn, _, _ context.CancelFunc) { client.Close() }, false},
		"the task ends":         {func(_ net.Conn, parent, _ context.CancelFunc) { parent() }, false},
		"that of the program's": {func(_ net.Conn, _, std context.CancelFunc) { std() }, true},
	} {
		for _, hijacked := range []bool{false, true} {
			c, client := contextOn(t)
			var parent, std context.CancelFunc
			c.Parents[1], parent = context.WithCancel(context.Background())
			c.Std, std = context.WithCancel(context.Background())
			testenv.Check(t, c.Err())
			if hijacked {
				c.Detach()
			}
			test.end(client, parent, std)
			if !hijacked || test.ends {
				<-c.Done()
			}
			testenv.Equal(t, c.Err() != nil, !hijacked || test.ends, "%s, hijacked: %v: it has ended", name, hijacked)
			c.End()
			parent()
			std()
		}
	}
}
