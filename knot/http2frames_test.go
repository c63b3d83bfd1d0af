package knot

import (
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// frames are what a client sends, and what it waits for meanwhile.
type frames []func(p *framePeer)

// request is a whole request as stream 1, of header fields given as name and value in turn.
func request(pairs ...string) func(*framePeer) { return headers(1, wholeHead, pairs...) }

// requestEnding is one whose header block ends with raw bytes.
func requestEnding(raw ...byte) func(*framePeer) {
	return func(p *framePeer) { p.headers(1, append(p.get(), raw...), wholeHead) }
}

// requestAfter is one whose header block begins with raw bytes.
func requestAfter(raw ...byte) func(*framePeer) {
	return func(p *framePeer) { p.headers(1, append(raw, p.get()...), wholeHead) }
}

// open begins a request as stream 1, whose content is to come.
func open(more ...string) func(*framePeer) { return headers(1, endsHeaders, post(more...)...) }

func headers(id uint32, flags http2.Flags, pairs ...string) func(*framePeer) {
	return func(p *framePeer) { p.headers(id, p.head(pairs...), flags) }
}

func continuation(id uint32, ends bool, pairs ...string) func(*framePeer) {
	return func(p *framePeer) { p.WriteContinuation(id, ends, p.head(pairs...)) }
}

func raw(t http2.FrameType, flags http2.Flags, id uint32, payload []byte) func(*framePeer) {
	return func(p *framePeer) { p.WriteRawFrame(t, flags, id, payload) }
}

// data are of stream 1.
func data(ends bool, content string) func(*framePeer) {
	return func(p *framePeer) { p.WriteData(1, ends, []byte(content)) }
}

// reset is of stream 1.
func reset(code http2.ErrCode) func(*framePeer) {
	return func(p *framePeer) { p.WriteRSTStream(1, code) }
}

func window(id, n uint32) func(*framePeer) {
	return func(p *framePeer) { p.WriteWindowUpdate(id, n) }
}

func setting(id http2.SettingID, value uint32) func(*framePeer) {
	return func(p *framePeer) { p.WriteSettings(http2.Setting{ID: id, Val: value}) }
}

func narrow(n uint32) func(*framePeer) { return setting(http2.SettingInitialWindowSize, n) }

func priority(id uint32, param http2.PriorityParam) func(*framePeer) {
	return func(p *framePeer) { p.WritePriority(id, param) }
}

// prioritized is a whole request as stream 1 with a priority and padding.
func prioritized(padding uint8, param http2.PriorityParam) func(*framePeer) {
	return func(p *framePeer) {
		p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.get(), EndStream: true, EndHeaders: true, PadLength: padding, Priority: param})
	}
}

func ping() func(*framePeer) {
	return func(p *framePeer) { p.WritePing(false, [8]byte{1}) }
}

// hear waits for a verdict of the server that begins so.
func hear(want string) func(*framePeer) {
	return func(p *framePeer) {
		if got := p.verdict(); !strings.HasPrefix(got, want) {
			p.t.Errorf("%s, want %s", got, want)
		}
	}
}

// closed sends a request as stream 1 and reads all of the response: the stream is closed then.
func closed(p *framePeer) {
	p.headers(1, p.get(), wholeHead)
	for !p.ended && p.verdict() != "end" {
	}
}

// halfClosed begins a request that is not answered, and is whole.
func halfClosed(p *framePeer) { p.ask(0, "/wait") }

// frameCases are what h2spec looks for (RFC 9113 and 7541), as far as a server can be asked. Where the RFC
// lets a server choose between an error of the stream and one of the connection, both are taken;
// closing the connection always is.
var frameCases = []struct {
	name string
	send frames
	want string // several by |
}{
	{"a request", frames{request(get()...)}, "200"},
	{"padded, with a priority", frames{prioritized(9, http2.PriorityParam{Weight: 3})}, "200"},
	{"in three frames", frames{func(p *framePeer) {
		b := p.get("x", strings.Repeat("y", 100))
		p.headers(1, b[:5], http2.FlagHeadersEndStream)
		p.WriteContinuation(1, false, b[5:10])
		p.WriteContinuation(1, true, b[10:])
	}}, "200"},
	{"unknown frame types", frames{raw(0x77, 0xff, 0, []byte("x")), raw(0x78, 0, 9, nil), request(get()...)}, "200"},
	{"unknown settings", frames{setting(0x99, 7), request(get()...)}, "200"},
	{"ping", frames{ping()}, "ping"},
	{"reserved bit of a stream's number", frames{func(p *framePeer) { p.headers(1|1<<31, p.get(), wholeHead) }}, "200|away PROTOCOL_ERROR"},
	{"data on stream 0", frames{raw(http2.FrameData, 0, 0, []byte("x"))}, "away PROTOCOL_ERROR"},
	{"headers on stream 0", frames{headers(0, wholeHead, get()...)}, "away PROTOCOL_ERROR"},
	{"an even number", frames{headers(2, wholeHead, get()...)}, "away PROTOCOL_ERROR"},
	{"a number that is lower", frames{headers(5, wholeHead, get()...), headers(3, wholeHead, get()...)}, "200|away PROTOCOL_ERROR|away STREAM_CLOSED"},
	{"data on an idle stream", frames{raw(http2.FrameData, 0, 1, []byte("x"))}, "away PROTOCOL_ERROR|away STREAM_CLOSED|reset STREAM_CLOSED"},
	{"window update of 0", frames{window(0, 0)}, "away PROTOCOL_ERROR"},
	{"window update of 0 for a stream", frames{open(), window(1, 0)}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"window too large", frames{window(0, 1<<31-1), window(0, 1<<31-1)}, "away FLOW_CONTROL_ERROR"},
	{"window of a stream too large", frames{open(), window(1, 1<<31-1), window(1, 1<<31-1)}, "reset FLOW_CONTROL_ERROR|away FLOW_CONTROL_ERROR"},
	{"window update on an idle stream", frames{window(1, 1)}, "away PROTOCOL_ERROR"},
	{"window update of wrong size", frames{raw(http2.FrameWindowUpdate, 0, 0, []byte("abc"))}, "away FRAME_SIZE_ERROR"},
	{"settings of a stream", frames{raw(http2.FrameSettings, 0, 1, nil)}, "away PROTOCOL_ERROR"},
	{"settings of wrong size", frames{raw(http2.FrameSettings, 0, 0, []byte("abc"))}, "away FRAME_SIZE_ERROR"},
	{"settings ack with content", frames{raw(http2.FrameSettings, http2.FlagSettingsAck, 0, make([]byte, 6))}, "away FRAME_SIZE_ERROR"},
	{"push neither on nor off", frames{setting(http2.SettingEnablePush, 2)}, "away PROTOCOL_ERROR"},
	{"first window too large", frames{setting(http2.SettingInitialWindowSize, 1<<31)}, "away FLOW_CONTROL_ERROR"},
	{"frame size too small", frames{setting(http2.SettingMaxFrameSize, 100)}, "away PROTOCOL_ERROR"},
	{"frame size too large", frames{setting(http2.SettingMaxFrameSize, 1<<24)}, "away PROTOCOL_ERROR"},
	{"ping of wrong size", frames{raw(http2.FramePing, 0, 0, []byte("abc"))}, "away FRAME_SIZE_ERROR"},
	{"ping of a stream", frames{raw(http2.FramePing, 0, 1, make([]byte, 8))}, "away PROTOCOL_ERROR"},
	{"reset of an idle stream", frames{reset(http2.ErrCodeCancel)}, "away PROTOCOL_ERROR"},
	{"reset of stream 0", frames{raw(http2.FrameRSTStream, 0, 0, make([]byte, 4))}, "away PROTOCOL_ERROR"},
	{"reset of wrong size", frames{open(), raw(http2.FrameRSTStream, 0, 1, []byte("abc"))}, "away FRAME_SIZE_ERROR"},
	{"continuation of nothing", frames{continuation(1, true, get()...)}, "away PROTOCOL_ERROR"},
	{"data between headers", frames{headers(1, 0, get()...), raw(http2.FrameData, 0, 1, []byte("x"))}, "away PROTOCOL_ERROR"},
	{"another stream between headers", frames{headers(1, 0, get()...), headers(3, wholeHead, get()...)}, "away PROTOCOL_ERROR"},
	{"unknown frame between headers", frames{headers(1, 0, get()...), raw(0x77, 0, 0, nil)}, "away PROTOCOL_ERROR"},
	{"a frame that is too large", frames{open(), raw(http2.FrameData, 0, 1, make([]byte, 1<<20+1))}, "away FRAME_SIZE_ERROR|reset FRAME_SIZE_ERROR"},
	{"goaway of a stream", frames{raw(http2.FrameGoAway, 0, 1, make([]byte, 8))}, "away PROTOCOL_ERROR"},
	{"push promise", frames{func(p *framePeer) {
		p.headers(1, p.post(), endsHeaders)
		p.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: p.get(), EndHeaders: true})
	}}, "away PROTOCOL_ERROR"},
	{"no HPACK", frames{func(p *framePeer) { p.headers(1, []byte{0x80}, wholeHead) }}, "away COMPRESSION_ERROR"},
	{"HPACK beyond the table", frames{func(p *framePeer) { p.headers(1, []byte{0xff, 0xff, 0x7f}, wholeHead) }}, "away COMPRESSION_ERROR"},
	{"HPACK table too large", frames{requestAfter(0x3f, 0xff, 0xff, 0x7f)}, "away COMPRESSION_ERROR"},
	{"padding longer than the frame", frames{open(), raw(http2.FrameData, http2.FlagDataPadded, 1, []byte{200, 1})}, "away PROTOCOL_ERROR"},
	{"a name with capitals", frames{request(get("X-Y", "z")...)}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"a header of the connection", frames{request(get("connection", "close")...)}, "reset PROTOCOL_ERROR|400"},
	{"te", frames{request(get("te", "gzip")...)}, "reset PROTOCOL_ERROR|400"},
	{"te trailers", frames{request(get("te", "trailers")...)}, "200"},
	{"an unknown pseudo-header", frames{request(get(":x", "y")...)}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"a pseudo-header of responses", frames{request(get(":status", "200")...)}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"a pseudo-header behind another", frames{request(":method", "GET", ":scheme", "http", "x", "y", ":path", "/")}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"no method", frames{request(":scheme", "http", ":path", "/")}, "reset PROTOCOL_ERROR"},
	{"no path", frames{request(":method", "GET", ":scheme", "http")}, "reset PROTOCOL_ERROR"},
	{"an empty path", frames{request(":method", "GET", ":scheme", "http", ":path", "")}, "reset PROTOCOL_ERROR"},
	{"two paths", frames{request(get(":path", "/b")...)}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"less than the length", frames{open("content-length", "5"), data(true, "x")}, "reset PROTOCOL_ERROR|400"},
	{"more than the length", frames{open("content-length", "1"), data(true, "xyz")}, "reset PROTOCOL_ERROR|reset STREAM_CLOSED"},
	{"trailers", frames{open(), data(false, "x"), request("a", "b")}, "200"},
	{"trailers that are not the end", frames{open(), headers(1, endsHeaders, "a", "b")}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"a pseudo-header in trailers", frames{open(), request(":method", "GET")}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"trailers behind a response that has come early", frames{func(p *framePeer) {
		p.headers(1, p.head(":method", "POST", ":scheme", "http", ":path", "/nothing", ":authority", "h"), endsHeaders)
		for v := ""; v != "reset NO_ERROR" && v != "end"; v = p.verdict() {
		}
		p.headers(1, p.head("a", "b"), wholeHead)
		p.WritePing(false, [8]byte{1})
	}}, "ping"},
	{"trailers of a request that was malformed", frames{open("X-Y", "z"), hear("400"), hear("reset"), request("a", "b"), ping()}, "ping"},
	{"a path that climbs", frames{request(":method", "GET", ":scheme", "http", ":path", "/../etc/passwd", ":authority", "h")}, "400"},
	{"a malformed authority", frames{request(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a b")}, "400|reset PROTOCOL_ERROR"},
	{"no authority", frames{request(":method", "GET", ":scheme", "http", ":path", "/")}, "400|reset PROTOCOL_ERROR"},
	{"a host in place of the authority", frames{request(":method", "GET", ":scheme", "http", ":path", "/", "host", "h")}, "200"},
	{"connect with less content than announced", frames{request(":method", "CONNECT", ":authority", "h:1", "content-length", "5")}, "reset PROTOCOL_ERROR"},
	{"connect", frames{request(":method", "CONNECT", ":authority", "h:1")}, "501|400"},
	// What h2spec has beside those above.
	{"undefined flags", frames{raw(http2.FramePing, 0xfe, 0, make([]byte, 8))}, "ping"},
	{"an answer to a ping is not answered", frames{func(p *framePeer) { p.WritePing(true, [8]byte{1}) }, request(get()...)}, "200"},
	{"reserved bit of a ping", frames{raw(http2.FramePing, 0, 1<<31, make([]byte, 8))}, "ping|away PROTOCOL_ERROR"},
	{"HEAD", frames{request(":method", "HEAD", ":scheme", "http", ":path", "/", ":authority", "h")}, "200"},
	{"a whole frame of data", frames{open(), data(true, string(make([]byte, 16384)))}, "200"},
	{"data in pieces", frames{open(), data(false, "x"), data(true, "y")}, "200"},
	{"padded data", frames{open(), func(p *framePeer) { p.WriteDataPadded(1, true, []byte("x"), make([]byte, 9)) }}, "200"},
	{"headers that are too large for a frame", frames{requestEnding(make([]byte, 1<<20)...)}, "away FRAME_SIZE_ERROR|away COMPRESSION_ERROR"},
	{"priority between headers", frames{headers(1, 0, get()...), priority(1, http2.PriorityParam{Weight: 1})}, "away PROTOCOL_ERROR"},
	{"priority of an idle stream", frames{priority(1, http2.PriorityParam{Weight: 255}), request(get()...)}, "200"},
	{"exclusive priority on an idle stream", frames{priority(3, http2.PriorityParam{StreamDep: 9, Exclusive: true}), headers(3, wholeHead, get()...)}, "200"},
	{"priority of a stream that is half closed", frames{halfClosed, priority(1, http2.PriorityParam{}), ping()}, "ping"},
	{"priority of a closed stream", frames{closed, priority(1, http2.PriorityParam{}), ping()}, "ping"},
	{"priority on stream 0", frames{raw(http2.FramePriority, 0, 0, make([]byte, 5))}, "away PROTOCOL_ERROR"},
	{"priority of wrong size", frames{open(), raw(http2.FramePriority, 0, 1, make([]byte, 4))}, "reset FRAME_SIZE_ERROR|away FRAME_SIZE_ERROR"},
	{"headers that depend on themselves", frames{prioritized(0, http2.PriorityParam{StreamDep: 1, Weight: 3})}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|200"}, // priorities are gone with RFC 9113
	{"a priority that depends on itself", frames{open(), priority(1, http2.PriorityParam{StreamDep: 1}), data(true, "")}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|200"},
	{"padding longer than the headers", frames{func(p *framePeer) { p.headers(1, append([]byte{200}, p.get()...), wholeHead|http2.FlagHeadersPadded) }}, "away PROTOCOL_ERROR|reset PROTOCOL_ERROR"}, // net/http resets only
	{"continuation on an idle stream", frames{continuation(3, true, get()...)}, "away PROTOCOL_ERROR"},
	{"continuation of another stream", frames{headers(1, 0, get()...), continuation(3, true, get()...)}, "away PROTOCOL_ERROR"},
	{"continuation on stream 0", frames{headers(1, 0, get()...), raw(http2.FrameContinuation, 4, 0, nil)}, "away PROTOCOL_ERROR"},
	{"continuation after the end of the headers", frames{open(), continuation(1, true, get()...)}, "away PROTOCOL_ERROR"},
	{"continuation after the end of another", frames{headers(1, 0, post()...), continuation(1, true), continuation(1, true)}, "away PROTOCOL_ERROR"},
	{"continuation after data", frames{open(), data(false, "x"), continuation(1, true)}, "away PROTOCOL_ERROR"},
	{"window update of a stream that is half closed", frames{halfClosed, window(1, 9), ping()}, "ping"},
	{"reset of a stream that is half closed", frames{halfClosed, reset(http2.ErrCodeCancel), ping()}, "ping"},
	{"data on a stream that is half closed", frames{halfClosed, data(true, "x")}, "reset STREAM_CLOSED|away STREAM_CLOSED"},
	{"headers on a stream that is half closed", frames{halfClosed, request(get()...)}, "reset STREAM_CLOSED|away STREAM_CLOSED"},
	{"continuation on a stream that is half closed", frames{halfClosed, continuation(1, true, get()...)}, "away PROTOCOL_ERROR|away STREAM_CLOSED"},
	{"data on a stream that was reset", frames{open(), reset(http2.ErrCodeCancel), data(true, "x")}, "reset STREAM_CLOSED|away STREAM_CLOSED"},
	{"headers on a stream that was reset", frames{open(), reset(http2.ErrCodeCancel), request(get()...)}, "reset STREAM_CLOSED|away STREAM_CLOSED|away PROTOCOL_ERROR"},
	{"continuation on a stream that was reset", frames{open(), reset(http2.ErrCodeCancel), continuation(1, true)}, "away PROTOCOL_ERROR|away STREAM_CLOSED"},
	{"data on a closed stream", frames{closed, data(true, "x")}, "reset STREAM_CLOSED|away STREAM_CLOSED"},
	{"headers on a closed stream", frames{closed, request(get()...)}, "away STREAM_CLOSED|away PROTOCOL_ERROR|reset STREAM_CLOSED"},
	{"continuation on a closed stream", frames{closed, continuation(1, true)}, "away PROTOCOL_ERROR|away STREAM_CLOSED"},
	{"reset with an unknown code", frames{open(), reset(0xff), ping()}, "ping"},
	{"goaway with an unknown code", frames{func(p *framePeer) { p.WriteGoAway(0, 0xff, nil) }, ping()}, "ping|away NO_ERROR"},
	{"a window of one byte", frames{narrow(1), request(get()...), hear("200")}, "data 1"},
	{"a window that becomes wider", frames{narrow(0), request(get()...), hear("200"), narrow(1)}, "data 1"},
	{"a window that is less than nothing", frames{narrow(3), request(get()...), hear("200"), hear("data 3"), narrow(2), window(1, 2)}, "data 1"},
	{"a setting twice", frames{func(p *framePeer) {
		p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		p.headers(1, p.get(), wholeHead)
	}}, "200|away PROTOCOL_ERROR"}, // which is allowed (RFC 9113, 6.5.3), but not by net/http
	{"two methods", frames{request(get(":method", "GET")...)}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"two schemes", frames{request(get(":scheme", "http")...)}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR"},
	{"no scheme", frames{request(":method", "GET", ":path", "/")}, "reset PROTOCOL_ERROR"},
	{"less than the length, in pieces", frames{open("content-length", "5"), data(false, "x"), data(true, "y")}, "reset PROTOCOL_ERROR|400"},
	{"a value with an end of line", frames{request(get("a", "b\r\nc: d")...)}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|400"},
	{"a name with a space", frames{request(get("a b", "c")...)}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|400"},
	{"a name with a colon", frames{request(get("a:b", "c")...)}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|400"},
	{"a coding", frames{open("transfer-encoding", "chunked"), data(true, "0\r\n\r\n")}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|400"},
	{"a path with a space and a request behind", frames{request(":method", "GET", ":scheme", "http", ":path", "/ HTTP/1.1\r\nHost: x\r\n\r\nGET /b", ":authority", "h")}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|400"},
	{"a method with a space", frames{request(":method", "GET /x", ":scheme", "http", ":path", "/", ":authority", "h")}, "reset PROTOCOL_ERROR|away PROTOCOL_ERROR|400"},
	{"HPACK, a literal that is indexed", frames{requestEnding(0x40, 1, 'a', 1, 'b', 0xbe)}, "200"},
	{"HPACK, literals that are not", frames{requestEnding(0x00, 1, 'a', 1, 'b', 0x10, 1, 'a', 1, 'b', 0x0f, 0x24, 1, 'r')}, "200"},
	{"HPACK, Huffman", frames{requestEnding(0x00, 0x81, 0x1f, 0x81, 0x1f)}, "200"},
	{"HPACK, the table made smaller", frames{requestAfter(0x20, 0x3f, 0x61)}, "200"},
	{"HPACK, a literal with a name beyond the table", frames{requestEnding(0x7f, 0xff, 0x7f, 1, 'x')}, "away COMPRESSION_ERROR"},
	{"HPACK, the size of the table at the end", frames{requestEnding(0x20)}, "away COMPRESSION_ERROR"},
	{"HPACK, padding of more than 7 bits", frames{requestEnding(0x00, 1, 'a', 0x82, 0x1f, 0xff)}, "away COMPRESSION_ERROR"},
	{"HPACK, padding with zeros", frames{requestEnding(0x00, 1, 'a', 0x81, 0x18)}, "away COMPRESSION_ERROR"},
	{"HPACK, the end of a string in it", frames{requestEnding(0x00, 1, 'a', 0x84, 0xff, 0xff, 0xff, 0xff)}, "away COMPRESSION_ERROR"},
	{"HPACK, a string that is cut off", frames{requestEnding(0x00, 1, 'a', 9, 'b')}, "away COMPRESSION_ERROR"},
	{"HPACK, a number without end", frames{requestEnding(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)}, "away COMPRESSION_ERROR"},
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
			defer close(release) // before the server stops
			testFrames(t, startServer(t, s, 1))
		})
	}
}

func testFrames(t *testing.T, sv *served) {
	for _, c := range frameCases {
		p := sv.framed()
		for _, send := range c.send {
			send(p)
		}
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
	p := sv.framed()
	p.ask(0, "/")
	testenv.Equal(t, p.verdict(), "200")
}
