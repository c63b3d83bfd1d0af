package knot

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
)

// FromHTTP makes a Server that serves as std does, in tasks: a program with an http.Server of its own calls Run,
// ListenAndServe, Serve, Shutdown and Close of that Server in place of std's. Handler and ErrorLog of std are looked at
// with each use, and http.ServerContextKey leads to std. Fields of the Server may be changed before it is started.
//
//   - Addr (if empty port 80, or 443 with TLS), ReadHeaderTimeout, IdleTimeout, MaxHeaderBytes, HTTP2 and
//     DisableGeneralOptionsHandler mean what they do there. Timeouts that std does not have are the defaults of Server.
//   - Protocols and TLSNextProto say whether HTTP/2 is spoken; functions in TLSNextProto are not called. With neither it is
//     spoken without TLS too, to clients that begin with it (Server.H2C).
//   - ReadTimeout and WriteTimeout begin when the head of the request has been read; in place of WriteTimeout
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
	if err := nethttp.Check(std); err != nil {
		return nil, err
	}
	s := likeHTTP(&std.Handler)
	s.std.Std = std
	s.Addr, s.HTTP2 = std.Addr, std.HTTP2
	s.TLS = std.TLSConfig.Clone()
	if s.H2C = nethttp.OffersHTTP2(std); std.Protocols != nil {
		s.H2C = std.Protocols.UnencryptedHTTP2()
	}
	s.HeadTimeout = cmp.Or(std.ReadHeaderTimeout, std.ReadTimeout)
	s.IdleTimeout = cmp.Or(std.IdleTimeout, std.ReadTimeout)
	if std.MaxHeaderBytes > 0 {
		s.MaxHead, s.MaxRequestLine = std.MaxHeaderBytes, std.MaxHeaderBytes
	}
	s.ErrorLog = nethttp.Log(std)
	return s, nil
}

// likeHTTP is a Server with h and the limits of http.Server, see Serve.
func likeHTTP(h *http.Handler) *Server {
	return &Server{
		Handler: adaptHTTP(h), H2C: true, Connect: true, Outgoing: serveOutgoing,
		MaxBody: -1, MaxHead: http.DefaultMaxHeaderBytes, MaxRequestLine: http.DefaultMaxHeaderBytes, MaxFields: serveFields,
	}
}

// stdContext is the context that a request's context on c takes its values from, and ends with; nil: there is none.
func (s *Server) stdContext(c *conn) context.Context {
	if !s.std.HasContext() {
		return nil
	}
	if st := c.stream; st != nil && st.on != nil {
		c = st.on.c
	}
	return s.std.Context(&c.known.std, c.nc)
}

// limitStd sets the deadlines that an http.Server has for each request.
func (e *exchange) limitStd(std *http.Server) { // not by the server's clock, which may be late by as much as some timeouts take
	if d := std.ReadTimeout; d > 0 && e.r.Body != http.NoBody {
		e.SetReadDeadline(time.Now().Add(d))
	}
	if d := std.WriteTimeout; d > 0 {
		e.SetWriteDeadline(time.Now().Add(d))
	}
}

// reportState calls ConnState, if there is one, and c was not in that state before.
func (s *Server) reportState(c *conn, state http.ConnState) {
	if s.std.TellsState() {
		s.std.Tell(&c.told, c.nc, state, s.errorLog())
	}
}
