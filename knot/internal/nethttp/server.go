package nethttp

import (
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
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/task"
)

const protoHTTP2 = "h2"

// Check reports which settings of std Knot can't follow.
func Check(std *http.Server) error {
	for protocol := range std.TLSNextProto {
		if protocol != protoHTTP2 && protocol != "unencrypted_http2" { // which net/http and x/net set
			return fmt.Errorf("knot: FromHTTP: TLSNextProto has %q; want only %q", protocol, protoHTTP2)
		}
	}
	if p := std.Protocols; p != nil && !p.HTTP1() {
		return errors.New("knot: FromHTTP: Protocols leaves HTTP/1 out, which is always served")
	}
	return nil
}

// OffersHTTP2 reports whether std would speak HTTP/2 over TLS.
func OffersHTTP2(std *http.Server) bool {
	if std.Protocols != nil {
		return std.Protocols.HTTP2()
	}
	_, given := std.TLSNextProto[protoHTTP2]
	return std.TLSNextProto == nil || given
}

// Protocols is config with the protocols that std would offer of these, behind the protocols of config.
func Protocols(std *http.Server, config *tls.Config, all []string) *tls.Config {
	if std == nil || config == nil {
		return config
	}
	config = config.Clone()
	offers := OffersHTTP2(std)
	config.NextProtos = slices.DeleteFunc(slices.Clone(config.NextProtos), func(p string) bool { return p == protoHTTP2 && !offers })
	for _, p := range all {
		if !slices.Contains(config.NextProtos, p) && (p != protoHTTP2 || offers) {
			config.NextProtos = append(config.NextProtos, p)
		}
	}
	return config
}

// Log writes to the ErrorLog of std, or where Knot logs by default.
func Log(std *http.Server) *slog.Logger { return slog.New(logTo{std}) }

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

// Hooks calls the functions of an http.Server: BaseContext, ConnContext and ConnState. They may wait natively. The zero value
// has none. Safe from anywhere.
type Hooks struct {
	Std *http.Server // nil: none; fixed

	basing task.Mutex                      // held during the call of BaseContext
	base   atomic.Pointer[context.Context] // what BaseContext has returned; nil: it has not been called; atomic
}

// Begin calls BaseContext, if it has not been called before.
func (h *Hooks) Begin(ln net.Listener) error {
	if h.Std == nil || h.Std.BaseContext == nil {
		return nil
	}
	h.basing.Lock()
	defer h.basing.Unlock()
	if h.base.Load() != nil {
		return nil
	}
	base := engine.Outside(h.Std.BaseContext, ln)
	if base == nil {
		return errors.New("knot: BaseContext returned nil; want a context")
	}
	h.base.Store(&base)
	return nil
}

// HasContext reports whether contexts of requests are made of one of the program's.
func (h *Hooks) HasContext() bool {
	return h.Std != nil && (h.Std.BaseContext != nil || h.Std.ConnContext != nil)
}

// A ConnHooks is what Hooks keeps of a connection. The zero value is a new one.
type ConnHooks struct {
	once task.Once // of ConnContext
	ctx  context.Context
}

// Context is the context that a request's context on nc takes its values from, and ends with. HasContext is true.
func (h *Hooks) Context(of *ConnHooks, nc net.Conn) context.Context {
	base := context.Background()
	if b := h.base.Load(); b != nil {
		base = *b
	}
	if h.Std.ConnContext == nil {
		return base
	}
	of.once.Do(func() {
		of.ctx = engine.Outside(callConnContext, contextOf{h.Std.ConnContext, context.WithValue(base, http.ServerContextKey, h.Std), nc})
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

// callConnContext is for engine.Outside, which needs a named function.
func callConnContext(c contextOf) context.Context { return c.fn(c.base, c.nc) }

// A ToldState is the state that ConnState was called with last for a connection, plus 1; 0: it has not been called. One task
// at a time may use it.
type ToldState uint8

// TellsState reports whether there is a ConnState.
func (h *Hooks) TellsState() bool { return h.Std != nil && h.Std.ConnState != nil }

// Tell calls ConnState, which there is, if the connection was not in that state before.
func (h *Hooks) Tell(told *ToldState, nc net.Conn, state http.ConnState, log *slog.Logger) {
	if state != http.StateNew && *told == 0 { // a request of HTTP/2, or a client that is turned away
		return
	}
	if before := *told; before != ToldState(state)+1 && before != ToldState(http.StateClosed)+1 {
		*told = ToldState(state) + 1
		engine.Outside(callConnState, stateOf{log, h.Std.ConnState, nc, state})
	}
}

// A stateOf is a call of ConnState.
type stateOf struct {
	log   *slog.Logger
	fn    func(net.Conn, http.ConnState)
	nc    net.Conn
	state http.ConnState
}

// callConnState is for engine.Outside, which needs a named function; there is no result.
func callConnState(s stateOf) struct{} {
	returned := false
	defer func() {
		if v := recover(); !returned && v != nil {
			s.log.Error("knot: ConnState panicked", "panic", logwriter.OneLine(fmt.Sprint(v)), "stack", logwriter.OneLine(string(engine.PanicStack(v))))
			if s.state != http.StateClosed && s.state != http.StateHijacked {
				s.nc.Close()
			}
		}
	}()
	s.fn(s.nc, s.state)
	returned = true
	return struct{}{}
}
