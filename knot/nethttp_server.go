package knot

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

// FromHTTP makes a Server that serves as std does, in tasks: a program with an http.Server of its own calls Run,
// ListenAndServe, Serve, Shutdown and Close of what it gets in the place of std's. Handler and ErrorLog of std are looked at
// with each use, and http.ServerContextKey leads to std. Fields of the Server may be changed before it is started.
//
//   - Addr, ReadHeaderTimeout, IdleTimeout, MaxHeaderBytes, HTTP2, Protocols, TLSNextProto and DisableGeneralOptionsHandler
//     mean what they do there. Timeouts that std does not have are the defaults of Server.
//   - ReadTimeout and WriteTimeout begin when the head of the request has been read; in place of the latter
//     http.ResponseController can set other deadlines, as there.
//   - BaseContext is called with the first listener that is served, ConnContext for the first request of a connection.
//   - ConnState is called in tasks; requests that have come together are one for StateActive and StateIdle. The connection, and
//     that of ConnContext, is no *tls.Conn, but has its method ConnectionState.
//   - TLS is a copy of TLSConfig if that has a certificate, or finds one. What std.ListenAndServeTLS would read LoadTLS does.
//   - Limits are those of Serve, apart from MaxHeaderBytes.
//
// The methods of std do nothing to the Server: functions that were given to std.RegisterOnShutdown are called by
// std.Shutdown only. It is an error if std has another protocol than HTTP/1 and HTTP/2, or has HTTP/1 switched off.
func FromHTTP(std *http.Server) (*Server, error) {
	for protocol := range std.TLSNextProto {
		if protocol != protoHTTP2 {
			return nil, fmt.Errorf("knot: FromHTTP: TLSNextProto has %q; want only %q", protocol, protoHTTP2)
		}
	}
	if p := std.Protocols; p != nil && !p.HTTP1() {
		return nil, errors.New("knot: FromHTTP: Protocols leaves HTTP/1 out, which is always served")
	}
	s := likeHTTP(&std.Handler)
	s.std = std
	s.Addr = cmp.Or(std.Addr, ":80")
	if std.TLSConfig != nil && checkTLS(std.TLSConfig) == nil {
		s.TLS = std.TLSConfig
		s.Addr = cmp.Or(std.Addr, ":443")
	}
	s.HTTP2 = std.HTTP2
	s.H2C = std.Protocols == nil || std.Protocols.UnencryptedHTTP2()
	s.HeadTimeout = cmp.Or(std.ReadHeaderTimeout, std.ReadTimeout)
	s.IdleTimeout = cmp.Or(std.IdleTimeout, std.ReadTimeout)
	if std.MaxHeaderBytes > 0 {
		s.MaxHead, s.MaxRequestLine = std.MaxHeaderBytes, std.MaxHeaderBytes
	}
	if std.ErrorLog != nil {
		s.ErrorLog = slog.New(logTo{std})
	}
	return s, nil
}

// likeHTTP is a Server with h and the limits of http.Server, see Serve.
func likeHTTP(h *http.Handler) *Server {
	return &Server{
		Handler: adaptHTTP(h), H2C: true, Connect: true, Outgoing: serveOutgoing,
		MaxBody: -1, MaxHead: http.DefaultMaxHeaderBytes, MaxRequestLine: http.DefaultMaxHeaderBytes, MaxFields: serveFields,
	}
}

// protocolsOf is config, which is ours, with the protocols that std would offer.
func protocolsOf(std *http.Server, config *tls.Config) *tls.Config {
	_, given := std.TLSNextProto[protoHTTP2]
	offers := std.TLSNextProto == nil || given
	if std.Protocols != nil {
		offers = std.Protocols.HTTP2()
	}
	adjust := func(c *tls.Config) {
		c.NextProtos = slices.DeleteFunc(slices.Clone(c.NextProtos), func(p string) bool { return p == protoHTTP2 })
		if offers {
			c.NextProtos = slices.Insert(c.NextProtos, 0, protoHTTP2)
		}
		if !slices.Contains(c.NextProtos, protoHTTP1) {
			c.NextProtos = append(c.NextProtos, protoHTTP1)
		}
	}
	adjust(config)
	if find := config.GetConfigForClient; find != nil {
		config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			special, err := find(hello) // a copy: see ownTLS
			if special != nil && err == nil {
				adjust(special)
			}
			return special, err
		}
	}
	return config
}

// A logTo is a slog.Handler that writes to the ErrorLog of an http.Server.
type logTo struct{ std *http.Server }

func (t logTo) Enabled(context.Context, slog.Level) bool { return true }
func (t logTo) WithAttrs([]slog.Attr) slog.Handler       { return t } // the server has neither
func (t logTo) WithGroup(string) slog.Handler            { return t }

func (t logTo) Handle(_ context.Context, r slog.Record) error {
	line := []byte(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		line = append(append(line, ' '), a.String()...)
		return true
	})
	t.std.ErrorLog.Print(string(line))
	return nil
}

// A stdContext is what the contexts of requests are made of on behalf of an http.Server.
type stdContext struct {
	once task.Once // of a connection
	ctx  context.Context
}

// beginStd calls BaseContext, if no Serve has before.
func (s *Server) beginStd(ln net.Listener) error {
	if s.std == nil || s.std.BaseContext == nil {
		return nil
	}
	s.basing.Lock()
	defer s.basing.Unlock()
	if s.stdBase.Load() != nil {
		return nil
	}
	base := s.std.BaseContext(ln)
	if base == nil {
		return errors.New("knot: BaseContext returned nil; want a context")
	}
	s.stdBase.Store(&base)
	return nil
}

// stdContext is what the context of a request on c has its values from, and ends with; nil: nothing.
func (s *Server) stdContext(c *conn) context.Context {
	if s.std == nil || s.std.BaseContext == nil && s.std.ConnContext == nil {
		return nil
	}
	base := context.Background()
	if b := s.stdBase.Load(); b != nil {
		base = *b
	}
	if s.std.ConnContext == nil {
		return base
	}
	if c.stream != nil {
		c = c.stream.h.c
	}
	of := &c.known.std
	of.once.Do(func() {
		of.ctx = engine.Outside(callConnContext, contextOf{s.std.ConnContext, context.WithValue(base, http.ServerContextKey, s.std), c.nc})
	})
	if of.ctx == nil {
		panic("knot: ConnContext returned nil; want a context")
	}
	return of.ctx
}

// A contextOf is a call of ConnContext.
type contextOf struct {
	fn   func(context.Context, net.Conn) context.Context
	base context.Context
	nc   net.Conn
}

// callConnContext is for engine.Outside.
func callConnContext(c contextOf) context.Context { return c.fn(c.base, c.nc) }

// limitStd sets the deadlines that an http.Server has for each request.
func (e *exchange) limitStd() {
	std, now := e.srv.std, e.srv.clock.now()
	if d := std.ReadTimeout; d > 0 && e.r.Body != http.NoBody {
		e.SetReadDeadline(e.srv.clock.at(now + int64(d)))
	}
	if d := std.WriteTimeout; d > 0 {
		e.SetWriteDeadline(e.srv.clock.at(now + int64(d)))
	}
}

// A toldState is what ConnState was called with last, and one more; 0: nothing.
type toldState struct{ atomic.Uint32 }

// tell calls ConnState, if there is one, and c was not in that state before.
func (s *Server) tell(c *conn, state http.ConnState) {
	if s.std != nil && s.std.ConnState != nil {
		s.tellStd(c, state)
	}
}

func (s *Server) tellStd(c *conn, state http.ConnState) {
	if state != http.StateNew && c.told.Load() == 0 { // a request of HTTP/2, or a client that is turned away
		return
	}
	if c.told.Swap(uint32(state)+1) != uint32(state)+1 {
		engine.Outside(callConnState, stateOf{s.std.ConnState, c.nc, state})
	}
}

// A stateOf is a call of ConnState.
type stateOf struct {
	fn    func(net.Conn, http.ConnState)
	nc    net.Conn
	state http.ConnState
}

// callConnState is for engine.Outside; there is no result.
func callConnState(s stateOf) struct{} {
	s.fn(s.nc, s.state)
	return struct{}{}
}
