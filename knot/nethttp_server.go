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
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/task"
)

// FromHTTP makes a Server that serves as std does, in tasks: a program with an http.Server of its own calls Run,
// ListenAndServe, Serve, Shutdown and Close of what it gets in the place of std's. Handler and ErrorLog of std are looked at
// with each use, and http.ServerContextKey leads to std. Fields of the Server may be changed before it is started.
//
//   - Addr (if empty port 80, or 443 with TLS), ReadHeaderTimeout, IdleTimeout, MaxHeaderBytes, HTTP2 and
//     DisableGeneralOptionsHandler mean what they do there. Timeouts that std does not have are the defaults of Server.
//   - Protocols and TLSNextProto say whether HTTP/2 is spoken; functions in the latter are not called. With neither it is
//     spoken without TLS too, to clients that begin with it (Server.H2C).
//   - ReadTimeout and WriteTimeout begin when the head of the request has been read; in place of the latter
//     http.ResponseController can set other deadlines, as there.
//   - BaseContext is called with the first listener that is served, ConnContext for the first request of a connection.
//   - ConnState is called in tasks; requests that have come together are one for StateActive and StateIdle. The connection, and
//     that of ConnContext, is no *tls.Conn, but has its method ConnectionState, and before the handshake neither reads nor writes.
//   - TLS is a copy of TLSConfig. As with http.Server, it is used by ServeTLS and ListenAndServeTLS only; and by Run, which
//     http.Server does not have, if it has a certificate, or finds one.
//   - Limits are those of Serve, apart from MaxHeaderBytes.
//
// The methods of std do nothing to the Server: functions that were given to std.RegisterOnShutdown are called by
// std.Shutdown only. It is an error if std has another protocol than HTTP/1 and HTTP/2, or has HTTP/1 switched off.
func FromHTTP(std *http.Server) (*Server, error) {
	for protocol := range std.TLSNextProto {
		if protocol != protoHTTP2 && protocol != "unencrypted_http2" { // which net/http and x/net set
			return nil, fmt.Errorf("knot: FromHTTP: TLSNextProto has %q; want only %q", protocol, protoHTTP2)
		}
	}
	if p := std.Protocols; p != nil && !p.HTTP1() {
		return nil, errors.New("knot: FromHTTP: Protocols leaves HTTP/1 out, which is always served")
	}
	s := likeHTTP(&std.Handler)
	s.std = std
	s.Addr, s.HTTP2 = std.Addr, std.HTTP2
	s.TLS = std.TLSConfig.Clone()
	if s.H2C = offersHTTP2(std); std.Protocols != nil {
		s.H2C = std.Protocols.UnencryptedHTTP2()
	}
	s.HeadTimeout = cmp.Or(std.ReadHeaderTimeout, std.ReadTimeout)
	s.IdleTimeout = cmp.Or(std.IdleTimeout, std.ReadTimeout)
	if std.MaxHeaderBytes > 0 {
		s.MaxHead, s.MaxRequestLine = std.MaxHeaderBytes, std.MaxHeaderBytes
	}
	s.ErrorLog = slog.New(logTo{std})
	return s, nil
}

// likeHTTP is a Server with h and the limits of http.Server, see Serve.
func likeHTTP(h *http.Handler) *Server {
	return &Server{
		Handler: adaptHTTP(h), H2C: true, Connect: true, Outgoing: serveOutgoing,
		MaxBody: -1, MaxHead: http.DefaultMaxHeaderBytes, MaxRequestLine: http.DefaultMaxHeaderBytes, MaxFields: serveFields,
	}
}

// offersHTTP2 reports whether std would speak HTTP/2 over TLS.
func offersHTTP2(std *http.Server) bool {
	if std.Protocols != nil {
		return std.Protocols.HTTP2()
	}
	_, given := std.TLSNextProto[protoHTTP2]
	return std.TLSNextProto == nil || given
}

// protocolsOf is config with the protocols that std would offer, in the order in which config has them.
func protocolsOf(std *http.Server, config *tls.Config) *tls.Config {
	if std == nil || config == nil {
		return config
	}
	config = config.Clone()
	offers := offersHTTP2(std)
	config.NextProtos = slices.DeleteFunc(slices.Clone(config.NextProtos), func(p string) bool { return p == protoHTTP2 && !offers })
	for _, p := range Protocols() {
		if !slices.Contains(config.NextProtos, p) && (p != protoHTTP2 || offers) {
			config.NextProtos = append(config.NextProtos, p)
		}
	}
	return config
}

// A logTo is a slog.Handler that writes to the ErrorLog of an http.Server, or where Knot logs by default.
type logTo struct{ std *http.Server }

func (t logTo) WithAttrs([]slog.Attr) slog.Handler { return t } // the server has neither
func (t logTo) WithGroup(string) slog.Handler      { return t }

func (t logTo) Enabled(ctx context.Context, level slog.Level) bool {
	return t.std.ErrorLog != nil || logwriter.Default().Enabled(ctx, level)
}

func (t logTo) Handle(ctx context.Context, r slog.Record) error {
	if t.std.ErrorLog == nil {
		return logwriter.Default().Handler().Handle(ctx, r)
	}
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
	base := engine.Outside(callBaseContext, baseOf{s.std.BaseContext, ln})
	if base == nil {
		return errors.New("knot: BaseContext returned nil; want a context")
	}
	s.stdBase.Store(&base)
	return nil
}

// A baseOf is a call of BaseContext.
type baseOf struct {
	fn func(net.Listener) context.Context
	ln net.Listener
}

// callBaseContext is for engine.Outside.
func callBaseContext(b baseOf) context.Context { return b.fn(b.ln) }

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
		c = c.stream.on.c
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
	std := e.srv.std // and not the server's clock, which may be late by as much as some timeouts take
	if d := std.ReadTimeout; d > 0 && e.r.Body != http.NoBody {
		e.SetReadDeadline(time.Now().Add(d))
	}
	if d := std.WriteTimeout; d > 0 {
		e.SetWriteDeadline(time.Now().Add(d))
	}
}

// A toldState is what ConnState was called with last, and one more; 0: nothing. It is of those that call tell, one at a time.
type toldState uint8

// tell calls ConnState, if there is one, and c was not in that state before.
func (s *Server) tell(c *conn, state http.ConnState) {
	if s.std != nil && s.std.ConnState != nil {
		s.tellStd(c, state)
	}
}

func (s *Server) tellStd(c *conn, state http.ConnState) {
	if state != http.StateNew && c.told == 0 { // a request of HTTP/2, or a client that is turned away
		return
	}
	if before := c.told; before != toldState(state)+1 && before != toldState(http.StateClosed)+1 {
		c.told = toldState(state) + 1
		engine.Outside(callConnState, stateOf{s, s.std.ConnState, c.nc, state})
	}
}

// A stateOf is a call of ConnState.
type stateOf struct {
	srv   *Server
	fn    func(net.Conn, http.ConnState)
	nc    net.Conn
	state http.ConnState
}

// callConnState is for engine.Outside; there is no result.
func callConnState(s stateOf) struct{} {
	returned := false
	defer func() {
		if v := recover(); !returned && v != nil {
			s.srv.errorLog().Error("knot: ConnState panicked", "panic", fmt.Sprint(v), "stack", string(task.PanicStack(v)))
			if s.state != http.StateClosed && s.state != http.StateHijacked {
				s.nc.Close()
			}
		}
	}()
	s.fn(s.nc, s.state)
	returned = true
	return struct{}{}
}
