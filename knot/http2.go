package knot

import (
	"crypto/tls"
	"net/http"
	"slices"
	"time"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// Protocols of TLS (RFC 7301).
const (
	protoHTTP10 = "http/1.0"
	protoHTTP1  = "http/1.1"
	protoHTTP2  = "h2"
)

// preface is what a client begins with that speaks HTTP/2 without having asked (RFC 9113, 3.4). Its
// first line is enough to tell: no request of HTTP/1 looks like it.
const preface = "PRI * HTTP/2.0\r\n"

// defaultMaxStreams is how many requests a client of HTTP/2 may have under way on a connection.
const defaultMaxStreams = 100

const (
	pingAfter    = 30 * time.Second
	pingWait     = 15 * time.Second
	farewellMost = time.Second // see limits.farewell
	h2Window     = 1 << 20     // of a connection and of each stream, in bytes
	h2FrameSize  = 16 << 10    // the least that can be set, and the largest frame that is sent
	h2TableSize  = 4 << 10     // of HPACK, what both sides begin with
	firstWindow  = 1<<16 - 1   // ... and of windows
	largestID    = 1<<31 - 1
)

// h2Limits is Server.HTTP2 with the defaults filled in. Sizes in bytes; no timeout is 0.
type h2Limits struct {
	streams                    uint32
	frame                      uint32 // largest that is read
	window, connWindow         int64
	table, encoderTable        uint32
	pingAfter, pingWait, write time.Duration
	anyCipher                  bool
	count                      func(string)
}

func (s *Server) http2Limits() h2Limits {
	given := s.HTTP2
	if given == nil {
		// A client from which nothing has come for so long is asked whether it is there.
		given = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait}
	}
	between := func(v, standard, least, most int) int {
		if v == 0 {
			return standard
		}
		return min(max(v, least), most)
	}
	l := h2Limits{
		streams:      uint32(between(given.MaxConcurrentStreams, defaultMaxStreams, 1, 1<<20)),
		frame:        uint32(between(given.MaxReadFrameSize, h2FrameSize, h2FrameSize, 1<<24-1)),
		window:       int64(between(given.MaxReceiveBufferPerStream, h2Window, firstWindow, largestID)),
		connWindow:   int64(between(given.MaxReceiveBufferPerConnection, h2Window, firstWindow, largestID)),
		table:        uint32(between(given.MaxDecoderHeaderTableSize, h2TableSize, 0, 4<<20)),
		encoderTable: uint32(between(given.MaxEncoderHeaderTableSize, h2TableSize, 0, 4<<20)),
		pingAfter:    timeout(given.SendPingTimeout, 0),
		pingWait:     timeout(given.PingTimeout, pingWait),
		write:        timeout(given.WriteByteTimeout, s.limits.write),
		anyCipher:    given.PermitProhibitedCipherSuites,
		count:        given.CountError,
	}
	if l.count == nil {
		l.count = func(string) {}
	}
	return l
}

// beginsHTTP2 reports whether the client speaks HTTP/2 without TLS, and may.
func (x *Ctx) beginsHTTP2(f *h1.Fault) bool {
	rest := x.in[x.r:x.w]
	return f == h1.UnknownVersion && x.srv.H2C && !x.c.served && secureOf(x.c.nc) == nil &&
		len(rest) >= len(preface) && string(rest[:len(preface)]) == preface
}

// ciphersHTTP2 are those of TLS 1.2 that HTTP/2 may be spoken with (RFC 9113, appendix A), of what
// crypto/tls has.
var ciphersHTTP2 = []uint16{
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
}

// serveHTTP2 has HTTP/2 spoken on c from now on; prefix has been read of it. c is not the caller's any more.
func (s *Server) serveHTTP2(c *conn, prefix []byte) {
	h := newH2Conn(c, prefix)
	s.mu.Lock()
	c.h2 = h
	c.state.Store(connFresh)
	s.mu.Unlock()
	if s.stopping.Load() { // or Shutdown finds it
		h.leave()
	}
	if _, state := c.facts(); state != nil && state.Version == tls.VersionTLS12 &&
		!h.limits.anyCipher && !slices.Contains(ciphersHTTP2, state.CipherSuite) {
		h.fail(http2.ErrCodeInadequateSecurity)
	}
	s.tell(c, http.StateActive)
	s.tell(c, http.StateIdle)
	h.start(nil, h.again)
}

// farewell tells all clients of HTTP/2 to send no further requests. It may block for a moment.
func (s *Server) farewell() {
	var all []*h2Conn
	s.mu.Lock()
	for c := s.first; c != nil; c = c.next {
		if c.h2 != nil {
			all = append(all, c.h2)
		}
	}
	s.mu.Unlock()
	for _, h := range all {
		go h.leave() // which may wait for the client
	}
}
