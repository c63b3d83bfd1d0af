package knot

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/knot/internal/neterr"
	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
)

// handshakes is where TLS connections enter, before they cost anything worth mentioning.
var handshakes = tasks.Entrance("TLS handshake")

// shedFor is for how long new clients get no handshake after a request was refused: one
// costs as much as dozens of requests, and clients that are there already go first.
const shedFor = 500 * time.Millisecond

// protoACME is the protocol by which a certificate authority checks that the server answers for a name
// (RFC 8737). It ends with the handshake.
const protoACME = "acme-tls/1"

// handshakeCounts are the counts that Handshakes returns. atomic
type handshakeCounts struct{ done, failed, refused atomic.Uint64 }

// Handshakes returns how many TLS handshakes have been completed, have failed, and have been
// refused because of overload. Safe from anywhere.
func (s *Server) Handshakes() (done, failed, refused uint64) {
	h := &s.handshakes
	return h.done.Load(), h.failed.Load(), h.refused.Load()
}

// serverTLS returns the config that the server uses for given, which may be nil.
func (s *Server) serverTLS(given *tls.Config) *tls.Config {
	return tlsin.Config(nethttp.Protocols(s.std.Std, given, protocols()), protocols())
}

// defaultTLS is for Serve, ListenAndServe and ServeConn. It is nil for a Server made by FromHTTP: http.Server speaks TLS only
// by ServeTLS and ListenAndServeTLS.
func (s *Server) defaultTLS() (*tls.Config, error) {
	if s.std.Std != nil {
		return nil, nil
	}
	return s.secure, tlsin.Check(s.TLS)
}

// runTLS is for Run, which http.Server does not have: a TLSConfig with a certificate is used. One that has none but asks
// clients for something is an error, as it would have no effect.
func (s *Server) runTLS() (*tls.Config, error) {
	err := tlsin.Check(s.TLS)
	if c := s.TLS; err != nil && s.std.Std != nil && c.ClientAuth == tls.NoClientCert && c.ClientCAs == nil && c.MinVersion == 0 && c.VerifyConnection == nil && c.VerifyPeerCertificate == nil {
		return nil, nil // as x/net's http2.ConfigureServer sets it
	}
	return s.secure, err
}

// withCertificate is TLS with the certificate in the files, or as it is if both names are empty.
func (s *Server) withCertificate(certFile, keyFile string) (*tls.Config, error) {
	config, err := tlsin.WithCertificate(s.TLS, certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return s.serverTLS(config), nil
}

// shakeHands is the task that starts when a new client of TLS has sent something.
func (c *conn) shakeHands() {
	if c.shake(tlsin.Of(c.nc)) {
		c.opens, c.whenReadable = opensByRequest, c.serveClient
		c.rest()
	}
}

// shake does the handshake. It returns false if the connection is closed, or was taken over by a handler.
func (c *conn) shake(secure *tlsin.Conn) bool {
	s := c.srv
	if at, ok := c.at(); ok && at.Ended() && !c.overdue() || !c.awakeNew() {
		c.finish()
		return false
	}
	if c.unwanted {
		c.refuseShake(secure)
		return false
	}
	in, may := c.mayShake()
	if in {
		defer handshakes.Leave()
	}
	if !may {
		s.handshakes.refused.Add(1)
		c.refuseShake(secure)
		return false
	}
	if tlsin.HasLeft(secure.NetConn()) && tlsin.BeginsHello(secure.NetConn()) {
		s.handshakes.failed.Add(1)
		c.finish()
		return false
	}
	if limit := s.settings().headTime; limit > 0 {
		c.setRead(s.clock.Now() + int64(limit))
	}
	c.armWrite(s.settings().write)
	err := secure.Handshake()
	if err != nil {
		s.handshakes.failed.Add(1)
		s.reportHandshake(c, err)
		tlsin.AnswerHTTP(err, secure.NetConn())
		c.finish()
		return false
	}
	s.handshakes.done.Add(1)
	c.since.Store(s.clock.Now())
	tlsin.Acknowledge(secure.NetConn())
	switch state := secure.ConnectionState(); state.NegotiatedProtocol {
	case protoACME:
		c.finish()
		return false
	case protoHTTP2:
		if state.Version < tls.VersionTLS12 { // RFC 9113, 9.2
			c.finish()
			return false
		}
		s.serveHTTP2(c, nil)
		return false
	}
	return true
}

// reportHandshake logs a handshake that has failed, but not that a client has gone without a word, as checks of the port
// do, or was cut off by Close.
func (s *Server) reportHandshake(c *conn, err error) {
	var panicked *engine.PanicError
	if errors.As(err, &panicked) {
		s.errorLog().Error("knot: a function of tls.Config panicked", "panic", logwriter.OneLine(fmt.Sprint(panicked.Value)),
			"stack", logwriter.OneLine(string(panicked.Stack)), "client", c.remoteHost())
		return
	}
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return
	}
	if untold, due := s.warned.handshakes.Due(s.clock.Now()); due {
		s.errorLog().Info("knot: TLS handshake error", "error", err, "client", c.remoteHost(), "unreported", untold)
	}
}

// overdue reports whether the read deadline has passed although something has come, in time or not.
func (c *conn) overdue() bool {
	return c.readBy != 0 && int64(c.srv.clock.Elapsed()) >= c.readBy && c.unread()
}

// awakeNew is awake for a connection that has not had its handshake.
func (c *conn) awakeNew() bool {
	return c.waiter() == nil || c.state.CompareAndSwap(connFresh, connActive)
}

// mayShake asks to be admitted, which may park. It reports whether c is in, and whether it may
// have its handshake.
func (c *conn) mayShake() (in, may bool) {
	err := c.enterAt(handshakes)
	if in = err == nil; refused(err) {
		return in, false
	}
	return in, !c.srv.shedsHandshakes()
}

// shedsHandshakes reports whether requests were refused a moment ago.
func (s *Server) shedsHandshakes() bool {
	at := s.refusedAt.Load()
	return at != 0 && s.clock.Now()-at < int64(shedFor)
}

// refuseShake closes c as cheaply as can be. The hello is taken first, as closing with unread
// input resets the connection, and the reset may overtake the alert.
func (c *conn) refuseShake(secure *tlsin.Conn) {
	err := secure.Fill()
	if neterr.TimedOut(err) && c.overdue() {
		if c.extend() {
			c.rest()
			return
		}
		c.setRead(int64(c.srv.clock.Elapsed() + lastRead))
		err = secure.Fill()
	}
	defer c.finish()
	if err == nil {
		c.armWrite(c.srv.settings().write)
		secure.NetConn().Write(tlsin.InternalError)
	}
	secure.Discard()
}

// unread reports whether something has come that c has not served. It is for its task.
func (c *conn) unread() bool {
	if s := tlsin.Of(c.nc); s != nil && s.Waiting() {
		return true
	}
	return unread(c.nc)
}

// protocols are offered to clients over TLS unless NextProtos of the tls.Config has others, the best first.
func protocols() []string { return []string{protoHTTP2, protoHTTP1, protoHTTP10} }
