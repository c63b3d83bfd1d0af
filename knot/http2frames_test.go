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
	"github.com/capriccio-go/capriccio/task"
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

func (sv *served) frames(preface string) *framePeer {
	sv.t.Helper()
	nc := testenv.Dial(sv.t, sv.addr)
	if sv.TLS != nil {
		nc = tls.Client(nc, &tls.Config{NextProtos: []string{protoHTTP2}, InsecureSkipVerify: true})
	}
	sv.t.Cleanup(func() { nc.Close() })
	p := &framePeer{t: sv.t, nc: nc, Framer: http2.NewFramer(nc, nc)}
	p.Framer.AllowIllegalWrites = true
	p.enc, p.dec = hpack.NewEncoder(&p.block), hpack.NewDecoder(4096, nil)
	io.WriteString(nc, preface)
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

func (p *framePeer) get(more ...string) []byte {
	return p.head(append([]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "h"}, more...)...)
}

func (p *framePeer) post(more ...string) []byte {
	return p.head(append([]string{":method", "POST", ":scheme", "http", ":path", "/echo", ":authority", "h"}, more...)...)
}

func (p *framePeer) headers(id uint32, block []byte, flags http2.Flags) {
	p.WriteRawFrame(http2.FrameHeaders, flags, id, block)
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

// answered sends a request as stream 1 and reads all of the response: the stream is closed then.
func (p *framePeer) answered() {
	p.headers(1, p.get(), wholeHead)
	for !p.ended && p.verdict() != "end" {
	}
}

// open begins a request as stream 1, whose content is to come.
func (p *framePeer) open(more ...string) { p.headers(1, p.post(more...), endsHeaders) }

// waiting begins a request that is not answered, and is whole.
func (p *framePeer) waiting() {
	p.headers(1, p.head(":method", "GET", ":scheme", "http", ":path", "/wait", ":authority", "h"), wholeHead)
}

// block writes a request whose header block ends with raw bytes.
func (p *framePeer) withRaw(raw ...byte) { p.headers(1, append(p.get(), raw...), wholeHead) }

const (
	wholeHead   = http2.FlagHeadersEndHeaders | http2.FlagHeadersEndStream
	wholePre    = http2.ClientPreface
	endsHeaders = http2.FlagHeadersEndHeaders
)

// frameCases are what h2spec looks for (RFC 9113 and 7541), as far as a server can be asked. Where the RFC
// lets a server choose between an error of the stream and one of the connection, both are taken;
// closing the connection always is.
var frameCases = []struct {
	name string
	send func(p *framePeer)
	want string // several by |
}{
	{"a request", func(p *framePeer) { p.headers(1, p.get(), wholeHead) }, "200"},
	{"padded, with a priority", func(p *framePeer) {
		p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.get(), EndStream: true, EndHeaders: true, PadLength: 9, Priority: http2.PriorityParam{Weight: 3}})
	}, "200"},
	{"in three frames", func(p *framePeer) {
		b := p.get("x", strings.Repeat("y", 100))
		p.headers(1, b[:5], http2.FlagHeadersEndStream)
		p.WriteContinuation(1, false, b[5:10])
		p.WriteContinuation(1, true, b[10:])
	}, "200"},
	{"unknown frame types", func(p *framePeer) {
		p.WriteRawFrame(0x77, 0xff, 0, []byte("x"))
		p.WriteRawFrame(0x78, 0, 9, nil)
		p.headers(1, p.get(), wholeHead)
	}, "200"},
	{"unknown settings", func(p *framePeer) {
		p.WriteSettings(http2.Setting{ID: 0x99, Val: 7})
		p.headers(1, p.get(), wholeHead)
	}, "200"},
	{"ping", func(p *framePeer) { p.WritePing(false, [8]byte{1}) }, "ping"},
	{"reserved bit of a stream's number", func(p *framePeer) { p.headers(1|1<<31, p.get(), wholeHead) }, "200|away PROTOCOL_ERROR"},
	{"data on stream 0", func(p *framePeer) { p.WriteRawFrame(http2.FrameData, 0, 0, []byte("x")) }, "away PROTOCOL_ERROR"},
	{"headers on stream 0", func(p *framePeer) { p.headers(0, p.get(), wholeHead) }, "away PROTOCOL_ERROR"},
	{"an even number", func(p *framePeer) { p.headers(2, p.get(), wholeHead) }, "away PROTOCOL_ERROR"},
	{"a number that is lower", func(p *framePeer) {
		p.headers(5, p.get(), wholeHead)
		p.headers(3, p.get(), wholeHead)
	}, "200|away PROTOCOL_ERROR|away STREAM_CLOSED"},
	{"data on an idle stream", func(p *framePeer) { p.WriteRawFrame(http2.FrameData, 0, 1, []byte("x")) }, "away PROTOCOL_ERROR|away STREAM_CLOSED|reset STREAM_CLOSED"},
	{"window update of 0", func(p *framePeer) { p.WriteWindowUpdate(0, 0) }, "away PROTOCOL_ERROR"},
	{"window update of 0 for a stream", func(p *framePeer) {
		p.headers(1, p.post(), endsHeaders)
		p.WriteWindowUpdate(1, 0)
	}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"window too large", func(p *framePeer) { p.WriteWindowUpdate(0, 1<<31-1); p.WriteWindowUpdate(0, 1<<31-1) }, "away FLOW_CONTROL_ERROR"},
	{"window of a stream too large", func(p *framePeer) {
		p.headers(1, p.post(), endsHeaders)
		p.WriteWindowUpdate(1, 1<<31-1)
		p.WriteWindowUpdate(1, 1<<31-1)
	}, "reset FLOW_CONTROL_ERROR|away FLOW_CONTROL_ERROR"},
	{"window update on an idle stream", func(p *framePeer) { p.WriteWindowUpdate(1, 1) }, "away PROTOCOL_ERROR"},
	{"window update of wrong size", func(p *framePeer) { p.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, []byte("abc")) }, "away FRAME_SIZE_ERROR"},
	{"settings of a stream", func(p *framePeer) { p.WriteRawFrame(http2.FrameSettings, 0, 1, nil) }, "away PROTOCOL_ERROR"},
	{"settings of wrong size", func(p *framePeer) { p.WriteRawFrame(http2.FrameSettings, 0, 0, []byte("abc")) }, "away FRAME_SIZE_ERROR"},
	{"settings ack with content", func(p *framePeer) { p.WriteRawFrame(http2.FrameSettings, http2.FlagSettingsAck, 0, make([]byte, 6)) }, "away FRAME_SIZE_ERROR"},
	{"push neither on nor off", func(p *framePeer) { p.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 2}) }, "away PROTOCOL_ERROR"},
	{"first window too large", func(p *framePeer) { p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}) }, "away FLOW_CONTROL_ERROR"},
	{"frame size too small", func(p *framePeer) { p.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 100}) }, "away PROTOCOL_ERROR"},
	{"frame size too large", func(p *framePeer) { p.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 24}) }, "away PROTOCOL_ERROR"},
	{"ping of wrong size", func(p *framePeer) { p.WriteRawFrame(http2.FramePing, 0, 0, []byte("abc")) }, "away FRAME_SIZE_ERROR"},
	{"ping of a stream", func(p *framePeer) { p.WriteRawFrame(http2.FramePing, 0, 1, make([]byte, 8)) }, "away PROTOCOL_ERROR"},
	{"reset of an idle stream", func(p *framePeer) { p.WriteRSTStream(1, http2.ErrCodeCancel) }, "away PROTOCOL_ERROR"},
	{"reset of stream 0", func(p *framePeer) { p.WriteRawFrame(http2.FrameRSTStream, 0, 0, make([]byte, 4)) }, "away PROTOCOL_ERROR"},
	{"reset of wrong size", func(p *framePeer) {
		p.headers(1, p.post(), endsHeaders)
		p.WriteRawFrame(http2.FrameRSTStream, 0, 1, []byte("abc"))
	}, "away FRAME_SIZE_ERROR"},
	{"continuation of nothing", func(p *framePeer) { p.WriteContinuation(1, true, p.get()) }, "away PROTOCOL_ERROR"},
	{"data between headers", func(p *framePeer) {
		p.headers(1, p.get(), 0)
		p.WriteRawFrame(http2.FrameData, 0, 1, []byte("x"))
	}, "away PROTOCOL_ERROR"},
	{"another stream between headers", func(p *framePeer) {
		p.headers(1, p.get(), 0)
		p.headers(3, p.get(), wholeHead)
	}, "away PROTOCOL_ERROR"},
	{"unknown frame between headers", func(p *framePeer) {
		p.headers(1, p.get(), 0)
		p.WriteRawFrame(0x77, 0, 0, nil)
	}, "away PROTOCOL_ERROR"},
	{"a frame that is too large", func(p *framePeer) {
		p.headers(1, p.post(), endsHeaders)
		p.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 1<<20+1))
	}, "away FRAME_SIZE_ERROR|reset FRAME_SIZE_ERROR"},
	{"goaway of a stream", func(p *framePeer) { p.WriteRawFrame(http2.FrameGoAway, 0, 1, make([]byte, 8)) }, "away PROTOCOL_ERROR"},
	{"push promise", func(p *framePeer) {
		p.headers(1, p.post(), endsHeaders)
		p.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: p.get(), EndHeaders: true})
	}, "away PROTOCOL_ERROR"},
	{"no HPACK", func(p *framePeer) { p.headers(1, []byte{0x80}, wholeHead) }, "away COMPRESSION_ERROR"},
	{"HPACK beyond the table", func(p *framePeer) { p.headers(1, []byte{0xff, 0xff, 0x7f}, wholeHead) }, "away COMPRESSION_ERROR"},
	{"HPACK table too large", func(p *framePeer) { p.headers(1, append([]byte{0x3f, 0xff, 0xff, 0x7f}, p.get()...), wholeHead) }, "away COMPRESSION_ERROR"},
	{"padding longer than the frame", func(p *framePeer) {
		p.headers(1, p.post(), endsHeaders)
		p.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, []byte{200, 1})
	}, "away PROTOCOL_ERROR"},
	{"a name with capitals", func(p *framePeer) { p.headers(1, p.get("X-Y", "z"), wholeHead) }, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"a header of the connection", func(p *framePeer) { p.headers(1, p.get("connection", "close"), wholeHead) }, "reset PROTOCOL_ERROR|400"},
	{"te", func(p *framePeer) { p.headers(1, p.get("te", "gzip"), wholeHead) }, "reset PROTOCOL_ERROR|400"},
	{"te trailers", func(p *framePeer) { p.headers(1, p.get("te", "trailers"), wholeHead) }, "200"},
	{"an unknown pseudo-header", func(p *framePeer) { p.headers(1, p.get(":x", "y"), wholeHead) }, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"a pseudo-header of responses", func(p *framePeer) { p.headers(1, p.get(":status", "200"), wholeHead) }, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"a pseudo-header behind another", func(p *framePeer) {
		p.headers(1, p.head(":method", "GET", ":scheme", "http", "x", "y", ":path", "/"), wholeHead)
	}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"no method", func(p *framePeer) { p.headers(1, p.head(":scheme", "http", ":path", "/"), wholeHead) }, "reset PROTOCOL_ERROR"},
	{"no path", func(p *framePeer) { p.headers(1, p.head(":method", "GET", ":scheme", "http"), wholeHead) }, "reset PROTOCOL_ERROR"},
	{"an empty path", func(p *framePeer) {
		p.headers(1, p.head(":method", "GET", ":scheme", "http", ":path", ""), wholeHead)
	}, "reset PROTOCOL_ERROR"},
	{"two paths", func(p *framePeer) { p.headers(1, p.get(":path", "/b"), wholeHead) }, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"less than the length", func(p *framePeer) {
		p.headers(1, p.post("content-length", "5"), endsHeaders)
		p.WriteData(1, true, []byte("x"))
	}, "reset PROTOCOL_ERROR|400"},
	{"more than the length", func(p *framePeer) {
		p.headers(1, p.post("content-length", "1"), endsHeaders)
		p.WriteData(1, true, []byte("xyz"))
	}, "reset PROTOCOL_ERROR|reset STREAM_CLOSED"},
	{"trailers", func(p *framePeer) {
		p.headers(1, p.post(), endsHeaders)
		p.WriteData(1, false, []byte("x"))
		p.headers(1, p.head("a", "b"), wholeHead)
	}, "200"},
	{"trailers that are not the end", func(p *framePeer) {
		p.headers(1, p.post(), endsHeaders)
		p.headers(1, p.head("a", "b"), endsHeaders)
	}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"a pseudo-header in trailers", func(p *framePeer) {
		p.headers(1, p.post(), endsHeaders)
		p.headers(1, p.head(":method", "GET"), wholeHead)
	}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"trailers behind a response that has come early", func(p *framePeer) {
		p.headers(1, p.head(":method", "POST", ":scheme", "http", ":path", "/nothing", ":authority", "h"), endsHeaders)
		for v := ""; v != "reset NO_ERROR" && v != "end"; v = p.verdict() {
		}
		p.headers(1, p.head("a", "b"), wholeHead)
		p.WritePing(false, [8]byte{1})
	}, "ping"},
	{"trailers of a request that was malformed", func(p *framePeer) {
		p.headers(1, p.post("X-Y", "z"), endsHeaders)
		p.verdict() // 400
		p.verdict() // reset
		p.headers(1, p.head("a", "b"), wholeHead)
		p.WritePing(false, [8]byte{1})
	}, "ping"},
	{"a path that climbs", func(p *framePeer) {
		p.headers(1, p.head(":method", "GET", ":scheme", "http", ":path", "/../etc/passwd", ":authority", "h"), wholeHead)
	}, "400"},
	{"a malformed authority", func(p *framePeer) {
		p.headers(1, p.head(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a b"), wholeHead)
	}, "400|reset PROTOCOL_ERROR"},
	{"no authority", func(p *framePeer) {
		p.headers(1, p.head(":method", "GET", ":scheme", "http", ":path", "/"), wholeHead)
	}, "400|reset PROTOCOL_ERROR"},
	{"a host in place of the authority", func(p *framePeer) {
		p.headers(1, p.head(":method", "GET", ":scheme", "http", ":path", "/", "host", "h"), wholeHead)
	}, "200"},
	{"connect with less content than announced", func(p *framePeer) {
		p.headers(1, p.head(":method", "CONNECT", ":authority", "h:1", "content-length", "5"), wholeHead)
	}, "reset PROTOCOL_ERROR"},
	{"connect", func(p *framePeer) { p.headers(1, p.head(":method", "CONNECT", ":authority", "h:1"), wholeHead) }, "501|400"},
	// What h2spec has beside those above.
	{"undefined flags", func(p *framePeer) { p.WriteRawFrame(http2.FramePing, 0xfe, 0, make([]byte, 8)) }, "ping"},
	{"an answer to a ping is not answered", func(p *framePeer) { p.WritePing(true, [8]byte{1}); p.headers(1, p.get(), wholeHead) }, "200"},
	{"reserved bit of a ping", func(p *framePeer) { p.WriteRawFrame(http2.FramePing, 0, 1<<31, make([]byte, 8)) }, "ping|away PROTOCOL_ERROR"},
	{"HEAD", func(p *framePeer) {
		p.headers(1, p.head(":method", "HEAD", ":scheme", "http", ":path", "/", ":authority", "h"), wholeHead)
	}, "200"},
	{"a whole frame of data", func(p *framePeer) { p.open(); p.WriteData(1, true, make([]byte, 16384)) }, "200"},
	{"data in pieces", func(p *framePeer) { p.open(); p.WriteData(1, false, []byte("x")); p.WriteData(1, true, []byte("y")) }, "200"},
	{"padded data", func(p *framePeer) { p.open(); p.WriteDataPadded(1, true, []byte("x"), make([]byte, 9)) }, "200"},
	{"headers that are too large for a frame", func(p *framePeer) { p.headers(1, append(p.get(), make([]byte, 1<<20)...), wholeHead) }, "away FRAME_SIZE_ERROR|away COMPRESSION_ERROR"},
	{"priority between headers", func(p *framePeer) { p.headers(1, p.get(), 0); p.WritePriority(1, http2.PriorityParam{Weight: 1}) }, "away PROTOCOL_ERROR"},
	{"priority of an idle stream", func(p *framePeer) {
		p.WritePriority(1, http2.PriorityParam{Weight: 255})
		p.headers(1, p.get(), wholeHead)
	}, "200"},
	{"exclusive priority on an idle stream", func(p *framePeer) {
		p.WritePriority(3, http2.PriorityParam{StreamDep: 9, Exclusive: true})
		p.headers(3, p.get(), wholeHead)
	}, "200"},
	{"priority of a stream that is half closed", func(p *framePeer) {
		p.waiting()
		p.WritePriority(1, http2.PriorityParam{})
		p.WritePing(false, [8]byte{1})
	}, "ping"},
	{"priority of a closed stream", func(p *framePeer) {
		p.answered()
		p.WritePriority(1, http2.PriorityParam{})
		p.WritePing(false, [8]byte{1})
	}, "ping"},
	{"priority on stream 0", func(p *framePeer) { p.WriteRawFrame(http2.FramePriority, 0, 0, make([]byte, 5)) }, "away PROTOCOL_ERROR"},
	{"priority of wrong size", func(p *framePeer) { p.open(); p.WriteRawFrame(http2.FramePriority, 0, 1, make([]byte, 4)) }, "reset FRAME_SIZE_ERROR|away FRAME_SIZE_ERROR"},
	{"headers that depend on themselves", func(p *framePeer) {
		p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.get(), EndStream: true, EndHeaders: true, Priority: http2.PriorityParam{StreamDep: 1, Weight: 3}})
	}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|200"}, // priorities are gone with RFC 9113
	{"a priority that depends on itself", func(p *framePeer) {
		p.open()
		p.WritePriority(1, http2.PriorityParam{StreamDep: 1})
		p.WriteData(1, true, nil)
	}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|200"},
	{"padding longer than the headers", func(p *framePeer) { p.headers(1, append([]byte{200}, p.get()...), wholeHead|http2.FlagHeadersPadded) }, "away PROTOCOL_ERROR|reset PROTOCOL_ERROR"}, // net/http resets only
	{"continuation on an idle stream", func(p *framePeer) { p.WriteContinuation(3, true, p.get()) }, "away PROTOCOL_ERROR"},
	{"continuation of another stream", func(p *framePeer) { p.headers(1, p.get(), 0); p.WriteContinuation(3, true, p.get()) }, "away PROTOCOL_ERROR"},
	{"continuation on stream 0", func(p *framePeer) { p.headers(1, p.get(), 0); p.WriteRawFrame(http2.FrameContinuation, 4, 0, nil) }, "away PROTOCOL_ERROR"},
	{"continuation after the end of the headers", func(p *framePeer) { p.open(); p.WriteContinuation(1, true, p.get()) }, "away PROTOCOL_ERROR"},
	{"continuation after the end of another", func(p *framePeer) {
		p.headers(1, p.post(), 0)
		p.WriteContinuation(1, true, nil)
		p.WriteContinuation(1, true, nil)
	}, "away PROTOCOL_ERROR"},
	{"continuation after data", func(p *framePeer) { p.open(); p.WriteData(1, false, []byte("x")); p.WriteContinuation(1, true, nil) }, "away PROTOCOL_ERROR"},
	{"window update of a stream that is half closed", func(p *framePeer) { p.waiting(); p.WriteWindowUpdate(1, 9); p.WritePing(false, [8]byte{1}) }, "ping"},
	{"reset of a stream that is half closed", func(p *framePeer) {
		p.waiting()
		p.WriteRSTStream(1, http2.ErrCodeCancel)
		p.WritePing(false, [8]byte{1})
	}, "ping"},
	{"data on a stream that is half closed", func(p *framePeer) { p.waiting(); p.WriteData(1, true, []byte("x")) }, "reset STREAM_CLOSED|away STREAM_CLOSED"},
	{"headers on a stream that is half closed", func(p *framePeer) { p.waiting(); p.headers(1, p.get(), wholeHead) }, "reset STREAM_CLOSED|away STREAM_CLOSED"},
	{"continuation on a stream that is half closed", func(p *framePeer) { p.waiting(); p.WriteContinuation(1, true, p.get()) }, "away PROTOCOL_ERROR|away STREAM_CLOSED"},
	{"data on a stream that was reset", func(p *framePeer) {
		p.open()
		p.WriteRSTStream(1, http2.ErrCodeCancel)
		p.WriteData(1, true, []byte("x"))
	}, "reset STREAM_CLOSED|away STREAM_CLOSED"},
	{"headers on a stream that was reset", func(p *framePeer) {
		p.open()
		p.WriteRSTStream(1, http2.ErrCodeCancel)
		p.headers(1, p.get(), wholeHead)
	}, "reset STREAM_CLOSED|away STREAM_CLOSED|away PROTOCOL_ERROR"},
	{"continuation on a stream that was reset", func(p *framePeer) {
		p.open()
		p.WriteRSTStream(1, http2.ErrCodeCancel)
		p.WriteContinuation(1, true, nil)
	}, "away PROTOCOL_ERROR|away STREAM_CLOSED"},
	{"data on a closed stream", func(p *framePeer) { p.answered(); p.WriteData(1, true, []byte("x")) }, "reset STREAM_CLOSED|away STREAM_CLOSED"},
	{"headers on a closed stream", func(p *framePeer) { p.answered(); p.headers(1, p.get(), wholeHead) }, "away STREAM_CLOSED|away PROTOCOL_ERROR|reset STREAM_CLOSED"},
	{"continuation on a closed stream", func(p *framePeer) { p.answered(); p.WriteContinuation(1, true, nil) }, "away PROTOCOL_ERROR|away STREAM_CLOSED"},
	{"reset with an unknown code", func(p *framePeer) { p.open(); p.WriteRSTStream(1, 0xff); p.WritePing(false, [8]byte{1}) }, "ping"},
	{"goaway with an unknown code", func(p *framePeer) { p.WriteGoAway(0, 0xff, nil); p.WritePing(false, [8]byte{1}) }, "ping|away NO_ERROR"},
	{"a window of one byte", func(p *framePeer) { p.narrow(1); p.headers(1, p.get(), wholeHead); p.verdict() }, "data 1"},
	{"a window that becomes wider", func(p *framePeer) { p.narrow(0); p.headers(1, p.get(), wholeHead); p.verdict(); p.narrow(1) }, "data 1"},
	{"a window that is less than nothing", func(p *framePeer) {
		p.narrow(3)
		p.headers(1, p.get(), wholeHead)
		p.verdict() // 200
		p.verdict() // data 3
		p.narrow(2)
		p.WriteWindowUpdate(1, 2)
	}, "data 1"},
	{"a setting twice", func(p *framePeer) { // which is allowed (RFC 9113, 6.5.3), but not by net/http
		p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		p.headers(1, p.get(), wholeHead)
	}, "200|away PROTOCOL_ERROR"},
	{"two methods", func(p *framePeer) { p.headers(1, p.get(":method", "GET"), wholeHead) }, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"two schemes", func(p *framePeer) { p.headers(1, p.get(":scheme", "http"), wholeHead) }, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"no scheme", func(p *framePeer) { p.headers(1, p.head(":method", "GET", ":path", "/"), wholeHead) }, "reset PROTOCOL_ERROR"},
	{"less than the length, in pieces", func(p *framePeer) {
		p.open("content-length", "5")
		p.WriteData(1, false, []byte("x"))
		p.WriteData(1, true, []byte("y"))
	}, "reset PROTOCOL_ERROR|400"},
	{"a value with an end of line", func(p *framePeer) { p.headers(1, p.get("a", "b\r\nc: d"), wholeHead) }, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|400"},
	{"a name with a space", func(p *framePeer) { p.headers(1, p.get("a b", "c"), wholeHead) }, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|400"},
	{"a name with a colon", func(p *framePeer) { p.headers(1, p.get("a:b", "c"), wholeHead) }, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|400"},
	{"a coding", func(p *framePeer) { p.open("transfer-encoding", "chunked"); p.WriteData(1, true, []byte("0\r\n\r\n")) }, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|400"},
	{"a path with a space and a request behind", func(p *framePeer) {
		p.headers(1, p.head(":method", "GET", ":scheme", "http", ":path", "/ HTTP/1.1\r\nHost: x\r\n\r\nGET /b", ":authority", "h"), wholeHead)
	}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|400"},
	{"a method with a space", func(p *framePeer) {
		p.headers(1, p.head(":method", "GET /x", ":scheme", "http", ":path", "/", ":authority", "h"), wholeHead)
	}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|400"},
	{"HPACK, a literal that is indexed", func(p *framePeer) { p.withRaw(0x40, 1, 'a', 1, 'b', 0xbe) }, "200"},
	{"HPACK, literals that are not", func(p *framePeer) { p.withRaw(0x00, 1, 'a', 1, 'b', 0x10, 1, 'a', 1, 'b', 0x0f, 0x24, 1, 'r') }, "200"},
	{"HPACK, Huffman", func(p *framePeer) { p.withRaw(0x00, 0x81, 0x1f, 0x81, 0x1f) }, "200"},
	{"HPACK, the table made smaller", func(p *framePeer) { p.headers(1, append([]byte{0x20, 0x3f, 0x61}, p.get()...), wholeHead) }, "200"},
	{"HPACK, a literal with a name beyond the table", func(p *framePeer) { p.withRaw(0x7f, 0xff, 0x7f, 1, 'x') }, "away COMPRESSION_ERROR"},
	{"HPACK, the size of the table at the end", func(p *framePeer) { p.withRaw(0x20) }, "away COMPRESSION_ERROR"},
	{"HPACK, padding of more than 7 bits", func(p *framePeer) { p.withRaw(0x00, 1, 'a', 0x82, 0x1f, 0xff) }, "away COMPRESSION_ERROR"},
	{"HPACK, padding with zeros", func(p *framePeer) { p.withRaw(0x00, 1, 'a', 0x81, 0x18) }, "away COMPRESSION_ERROR"},
	{"HPACK, the end of a string in it", func(p *framePeer) { p.withRaw(0x00, 1, 'a', 0x84, 0xff, 0xff, 0xff, 0xff) }, "away COMPRESSION_ERROR"},
	{"HPACK, a string that is cut off", func(p *framePeer) { p.withRaw(0x00, 1, 'a', 9, 'b') }, "away COMPRESSION_ERROR"},
	{"HPACK, a number without end", func(p *framePeer) { p.withRaw(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) }, "away COMPRESSION_ERROR"},
}

// narrow sets the window that streams begin with.
func (p *framePeer) narrow(n uint32) {
	p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: n})
}

func TestHTTP2Frames(t *testing.T) {
	for name, s := range map[string]*Server{"prior knowledge": {H2C: true}, "TLS": {TLS: testenv.NewCA(t).Server(t)}} {
		t.Run(name, func(t *testing.T) {
			release := make(chan bool)
			s.Handler = func(x *Ctx) error {
				if x.Path() == "/wait" {
					task.Offload(func() { <-release })
				}
				return echoHandler(x)
			}
			sv := startServer(t, s, 1)
			defer close(release)
			testFrames(t, sv)
		})
	}
}

func testFrames(t *testing.T, sv *served) {
	for _, c := range frameCases {
		p := sv.frames(wholePre)
		p.WriteSettings()
		c.send(p)
		got := p.verdict()
		if got == "400" && !strings.HasSuffix(c.want, "400") { // an answer goes before the error
			got = p.verdict()
		}
		if !strings.Contains("|"+c.want+"|", "|"+got+"|") && (got != "end" || !strings.Contains(c.want, "away")) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		p.nc.Close()
	}
	for _, bad := range []string{preface + "\r\nXX\r\n\r\n" + strings.Repeat("\x00", 30), preface + "garbage, and much of it, more than the rest of the preface is long"} {
		if got := sv.frames(bad).verdict(); got != "end" && !strings.HasPrefix(got, "away") {
			t.Errorf("preface %.30q: %s", bad, got)
		}
	}
	// The server goes on.
	p := sv.frames(wholePre)
	p.WriteSettings()
	p.headers(1, p.get(), wholeHead)
	if got := p.verdict(); got != "200" {
		t.Error(got)
	}
}
