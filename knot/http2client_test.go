package knot

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A framePeer is a client that sends what frames it likes.
type framePeer struct {
	t  *testing.T
	nc net.Conn
	*http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
	dec   *hpack.Decoder
	ended bool // the last frame that was read has ended its stream
}

// newFramePeer is for a connection, or with nil for what is to be read from script.
func newFramePeer(t *testing.T, nc net.Conn, script io.Writer) *framePeer {
	p := &framePeer{t: t, nc: nc, Framer: http2.NewFramer(script, nc)}
	p.Framer.AllowIllegalWrites = true
	p.enc, p.dec = hpack.NewEncoder(&p.block), hpack.NewDecoder(4096, nil)
	return p
}

// frames connects a client that has sent a preface.
func (sv *served) frames(preface string) *framePeer {
	sv.t.Helper()
	nc := testenv.Dial(sv.t, sv.addr)
	if sv.TLS != nil {
		nc = tls.Client(nc, &tls.Config{NextProtos: []string{protoHTTP2}, InsecureSkipVerify: true})
	}
	sv.t.Cleanup(func() { nc.Close() })
	io.WriteString(nc, preface)
	return newFramePeer(sv.t, nc, nc)
}

// framed connects a client that has sent the preface of HTTP/2 and settings.
func (sv *served) framed(settings ...http2.Setting) *framePeer {
	sv.t.Helper()
	p := sv.frames(wholePre)
	p.WriteSettings(settings...)
	return p
}

// head encodes header fields, given as name and value in turn.
func (p *framePeer) head(pairs ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		p.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return p.block.Bytes()
}

// get are the header fields of a request, and those in more.
func get(more ...string) []string {
	return append([]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "h"}, more...)
}

// post are those of a request with content.
func post(more ...string) []string {
	return append([]string{":method", "POST", ":scheme", "http", ":path", "/echo", ":authority", "h"}, more...)
}

func (p *framePeer) get(more ...string) []byte  { return p.head(get(more...)...) }
func (p *framePeer) post(more ...string) []byte { return p.head(post(more...)...) }

func (p *framePeer) headers(id uint32, block []byte, flags http2.Flags) error {
	return p.WriteRawFrame(http2.FrameHeaders, flags, id, block)
}

// verdict reads until the server has said what it thinks: the code of GOAWAY or RST_STREAM, "ping", the size of data, or
// a status; "end" if it closes.
func (p *framePeer) verdict() string {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return "end"
		}
		if p.ended = f.Header().Flags.Has(http2.FlagDataEndStream); f.Header().Type > http2.FrameHeaders {
			p.ended = false
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			if n := len(f.Data()); n > 0 {
				return fmt.Sprint("data ", n)
			}
		case *http2.GoAwayFrame:
			return "away " + f.ErrCode.String()
		case *http2.RSTStreamFrame:
			return "reset " + f.ErrCode.String()
		case *http2.PingFrame:
			if f.IsAck() {
				return "ping"
			}
		case *http2.HeadersFrame:
			fields, err := p.dec.DecodeFull(f.HeaderBlockFragment())
			if err != nil || len(fields) == 0 {
				continue
			}
			dated := slices.ContainsFunc(fields, func(f hpack.HeaderField) bool { return f.Name == "date" })
			if status := fields[0]; status.Name == ":status" && status.Value >= "200" && !dated { // RFC 9110, 6.6.1
				return status.Value + " without a date"
			}
			return fields[0].Value
		}
	}
}

// ask sends a request for path as the stream of number i, beginning with 0.
func (p *framePeer) ask(i int, path string) error {
	return p.headers(uint32(2*i+1), p.head(":method", "GET", ":scheme", "http", ":path", path, ":authority", "h"), wholeHead)
}

// narrow sets the window that streams begin with.
func (p *framePeer) narrow(n uint32) {
	p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: n})
}

const (
	wholeHead   = http2.FlagHeadersEndHeaders | http2.FlagHeadersEndStream
	wholePre    = http2.ClientPreface
	endsHeaders = http2.FlagHeadersEndHeaders
)

// verdictButData is the next verdict that is no data.
func (p *framePeer) verdictButData() string {
	for {
		if v := p.verdict(); !strings.HasPrefix(v, "data") {
			return v
		}
	}
}
