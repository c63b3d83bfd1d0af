package knot_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// TestWrappedConnsKeepTheirTasks: a connection that a wrapper holds in a field that is not exported is served by a
// task if it is one of netpoll, by a goroutine if it is one of package net.
func TestWrappedConnsKeepTheirTasks(t *testing.T) {
	if testenv.Race {
		t.Skip("no loop is taken from a task under the race detector")
	}
	for own, listen := range map[bool]func(network, addr string) (net.Listener, error){
		true:  func(network, addr string) (net.Listener, error) { return netpoll.Listen(network, addr) },
		false: net.Listen,
	} {
		err := capriccio.Run(t.Context(), func(context.Context) error {
			ln, err := listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			s := &knot.Server{Handler: func(x *knot.Ctx) error {
				_, err := x.WriteString(strconv.FormatBool(task.Current() != nil))
				return err
			}, ErrorLog: slog.New(slog.DiscardHandler)}
			served := task.Go(func() { s.Serve(wrappedListener{ln}) })
			var got string
			task.Offload(func() {
				got, err = getText("http://" + ln.Addr().String())
			})
			testenv.Equal(t, got, strconv.FormatBool(own), "netpoll's: %v, served in a task:, %v", own, err)
			s.Close()
			served.Join()
			return nil
		}, capriccio.WithoutSignals(), capriccio.WithLoops(2), capriccio.WithLogger(slog.New(slog.DiscardHandler)))
		testenv.Must(t, err)
	}
}

func getText(url string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// Wrapped as netutil.LimitListener and PROXY protocol libraries do it.
type (
	wrappedListener struct{ net.Listener }
	wrappedConn     struct {
		inner  net.Conn
		closed sync.Once
	}
	twiceWrapped struct{ net.Conn }
)

func (l wrappedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &twiceWrapped{Conn: &wrappedConn{inner: nc}}, nil
}

func (c *wrappedConn) Read(b []byte) (int, error)         { return c.inner.Read(b) }
func (c *wrappedConn) Write(b []byte) (int, error)        { return c.inner.Write(b) }
func (c *wrappedConn) Close() (err error)                 { c.closed.Do(func() { err = c.inner.Close() }); return err }
func (c *wrappedConn) LocalAddr() net.Addr                { return c.inner.LocalAddr() }
func (c *wrappedConn) RemoteAddr() net.Addr               { return c.inner.RemoteAddr() }
func (c *wrappedConn) SetDeadline(t time.Time) error      { return c.inner.SetDeadline(t) }
func (c *wrappedConn) SetReadDeadline(t time.Time) error  { return c.inner.SetReadDeadline(t) }
func (c *wrappedConn) SetWriteDeadline(t time.Time) error { return c.inner.SetWriteDeadline(t) }
