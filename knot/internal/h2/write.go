package h2

import (
	"bytes"
	"math"
	"net/textproto"
	"strings"
	"sync"

	"github.com/capriccio-go/capriccio/internal/ownconn"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/task"
)

// A connection of HTTP/2 sends frames. They are gathered, and the task that has made one writes what there is.

const (
	// outMost is how many bytes are gathered before requests wait with more.
	outMost = 64 << 10
	// leastOut is the same while the client takes nothing.
	leastOut = 4 << 10
	// controlMost bounds what is gathered besides, answers to PING and the like.
	controlMost = 64 << 10
	// outSize is the size of the buffers that frames are gathered in, in bytes, while they do not grow.
	outSize = 16 << 10
)

// An output is the part of a Conn that is about this. Guarded by its mu.
type output struct {
	out, spare []byte // gathered; nil: borrowed when needed
	writing    bool   // a task writes
	scheduled  bool   // ... or is about to
	failed     bool   // because of an error, see fail
	over       bool   // nothing can be written any more
	frames     *http2.Framer
	known      int // bytes more that the client is known to take without a wait

	enc     *hpack.Encoder
	encoded bytes.Buffer
	// The last head, and what it became, if that has not changed, and does not change, what the encoder knows.
	lastHead, lastBlock []byte
}

var outs = sync.Pool{New: func() any { b := make([]byte, 0, outSize); return &b }}

// room makes sure that there is a buffer.
func (o *output) room() {
	if o.out == nil {
		o.out = *outs.Get().(*[]byte)
		tasks.Buffers.Acquire(outSize)
	}
}

// release gives a buffer back.
func (o *output) release(b []byte) {
	if b == nil {
		return
	}
	tasks.Buffers.Release(outSize)
	put(b)
}

func put(b []byte) {
	if outSize <= cap(b) && cap(b) <= 2*outMost {
		b = b[:0]
		outs.Put(&b)
	}
}

// slim returns b, in a buffer that has grown only if the client is known to take more.
func (o *output) slim(b []byte) []byte {
	if cap(b) <= outSize || o.known > leastOut {
		return b
	}
	fit := append(make([]byte, 0, max(len(b), leastOut)), b...)
	put(b)
	return fit
}

// Write implements io.Writer, for the Framer.
func (o *output) Write(p []byte) (int, error) {
	if !o.over {
		o.room()
		o.out = append(o.out, p...)
	}
	return len(p), nil
}

// data appends a frame: the Framer would copy p twice.
func (o *output) data(id uint32, p []byte, ends bool) {
	o.room()
	flags := byte(0)
	if ends {
		flags = byte(http2.FlagDataEndStream)
	}
	n := len(p)
	o.out = append(o.out, byte(n>>16), byte(n>>8), byte(n), byte(http2.FrameData), flags, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	o.out = append(o.out, p...)
	o.known = max(o.known-n, 0)
}

// space is how many of n bytes of bodies may be gathered. The client's room for a few is not asked for. It needs mu.
func (h *Conn) space(n int64) int64 {
	free := int64(outMost - len(h.out))
	if n = min(n, free); n <= leastOut {
		return n
	}
	if int64(h.known) < n {
		h.known = math.MaxInt
		if c, ok := ownconn.Of(h.NC).(interface{ WriteRoom() int }); ok {
			h.known = max(c.WriteRoom()-len(h.out), 0)
		}
	}
	return min(n, int64(max(h.known, leastOut-len(h.out))))
}

// kick sees to it that what has been gathered is written: at once, but for requests that are about
// to be served and will add to it. It needs mu, and may leave it meanwhile; then it parks.
func (h *Conn) kick() {
	if h.starting > 0 {
		h.kickLater()
	} else if !h.writing && !h.over {
		h.flush()
	}
}

// kickLater sees to it that what has been gathered is written, by a task of its own. It never parks, and so is for the
// reader and for requests that read: a task that writes to a slow client also writes what others add meanwhile. It needs mu.
func (h *Conn) kickLater() {
	if h.writing || h.over || h.scheduled || len(h.out) == 0 {
		return
	}
	h.scheduled = true
	if h.starts == nil || !h.starts.StartAt(nil, h.later) {
		go h.later() // a task that has waited natively must not come back to its loop with mu
	}
}

// flushLater is flush in a task of its own, after tasks that are ready have run.
func (h *Conn) flushLater() {
	task.Yield()
	h.mu.Lock()
	defer h.unlock()
	h.scheduled = false
	if !h.writing && !h.over {
		h.flush()
	}
}

// flush writes what has been gathered. It is called when no task is writing. It needs mu, which it leaves meanwhile.
func (h *Conn) flush() {
	h.writing = true
	for !h.over && len(h.out) > 0 {
		b := h.slim(h.out)
		h.out, h.spare = h.slim(h.spare), nil
		h.unlock()
		h.armWrite()
		_, err := h.NC.Write(b)
		h.mu.Lock()
		if err != nil {
			h.release(b)
			h.broken()
			break
		}
		h.spare = b[:0]
		h.wakeWriters()
	}
	if !h.over && !h.shut && (h.failed || h.closing && h.handlers == 0) {
		h.shutDown()
	}
	if len(h.out) == 0 {
		h.release(h.out)
		h.out = nil
	}
	h.release(h.spare)
	h.spare = nil
	h.writing = false
}

// broken ends the connection when it can't be written to any more. It needs mu, and leaves it meanwhile.
func (h *Conn) broken() {
	h.breakOff()
	h.unlock()
	h.NC.Close()
	h.mu.Lock()
}

// shutDown ends our side. The client may still be sending, and a reset would overtake what it has not read.
func (h *Conn) shutDown() {
	h.shut = true
	h.lingerBy = h.Clock.Now() + int64(h.Limits.Linger)
	half, ok := h.NC.(interface{ CloseWrite() error })
	if ok {
		h.unlock()
		ok = half.CloseWrite() == nil
		h.mu.Lock()
	}
	if !ok {
		h.broken()
		return
	}
	h.NC.SetReadDeadline(h.Clock.At(h.lingerBy)) // ReadBy is the reader's
}

// wakeWriters lets requests go on that wait to send, in the order in which they began to: what
// the first one leaves of a window is the next one's. It needs mu.
func (h *Conn) wakeWriters() {
	for _, st := range h.writers {
		st.queued = false
		st.wake(&st.writer)
	}
	clear(h.writers)
	h.writers = h.writers[:0]
}

// control is called after a frame has been gathered that a client can have us send. It needs mu, and reports
// whether the client reads such frames.
func (h *Conn) control() bool { return len(h.out) < outMost+controlMost }

// sendHead sends the header lines in text, each with its CR LF, as one block: a response if status is
// not 0, else a trailer. It needs mu.
func (h *Conn) sendHead(id uint32, status int, text []byte, ends bool) {
	block := h.lastBlock
	if status == 0 || len(text) == 0 || !bytes.Equal(text, h.lastHead) {
		block = h.encode(status, text)
	}
	const most = frameSize
	first := block[:min(len(block), most)]
	h.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: ends, EndHeaders: len(first) == len(block)})
	for rest := block[len(first):]; len(rest) > 0; {
		piece := rest[:min(len(rest), most)]
		rest = rest[len(piece):]
		h.frames.WriteContinuation(id, len(rest) == 0, piece)
	}
}

// encode makes a header block of a head: the status line, if there is a status, and header lines.
func (h *Conn) encode(status int, text []byte) []byte {
	h.encoded.Reset()
	steady := true // it changes nothing of what the encoder knows
	field := func(name, value string) {
		at := h.encoded.Len()
		h.enc.WriteField(hpack.HeaderField{Name: name, Value: value})
		// RFC 7541, 6.2.1 and 6.3: a literal that is indexed, a change of the table's size
		first := h.encoded.Bytes()[at]
		steady = steady && first&0xc0 != 0x40 && first&0xe0 != 0x20
	}
	rest := text
	if status != 0 {
		field(":status", statusTexts[status])
		_, rest, _ = bytes.Cut(text, []byte("\r\n"))
	}
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch lower := lowerName(name); lower {
		case "connection", "upgrade", "keep-alive", "proxy-connection", "transfer-encoding": // RFC 9113, 8.2.2
		default:
			field(lower, string(textproto.TrimBytes(value)))
		}
	}
	if h.lastHead = h.lastHead[:0]; steady && status != 0 && len(text) < 1024 {
		h.lastHead = append(h.lastHead, text...)
		h.lastBlock = append(h.lastBlock[:0], h.encoded.Bytes()...)
	}
	return h.encoded.Bytes()
}

// statusTexts are the statuses as they are sent.
var statusTexts = func() (all [h1.WidestStatus + 1]string) {
	for i := range all {
		all[i] = string([]byte{'0' + byte(i/100), '0' + byte(i/10%10), '0' + byte(i%10)})
	}
	return all
}()

// lowerNames leads from the names of common header lines to what HTTP/2 makes of them.
var lowerNames = func() map[string]string {
	all := make(map[string]string)
	for _, name := range []string{
		"Date", "Server", "Content-Type", "Content-Length", "Last-Modified", "Etag", "ETag", "Cache-Control", "Vary",
		"Accept-Ranges", "Content-Range", "Content-Encoding", "Location", "Connection", "Transfer-Encoding", "Trailer",
		"Set-Cookie", "X-Content-Type-Options", "Grpc-Status", "Grpc-Message", "Retry-After", "Link",
	} {
		all[name] = strings.ToLower(name)
	}
	return all
}()

func lowerName(name []byte) string {
	if lower, ok := lowerNames[string(name)]; ok {
		return lower
	}
	return strings.ToLower(string(name))
}
