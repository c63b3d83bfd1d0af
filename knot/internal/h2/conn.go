// Package h2 is HTTP/2 as a server speaks it: frames, HPACK, flow control, the bookkeeping of streams, and what it
// bears of clients that flood it. It answers no request. Each is a Stream, to the server (the Host) a net.Conn on which a
// request of HTTP/1.1 comes and its response is written: so the rest of the server is the same for both versions.
//
// A Conn has one task that reads, while something comes; each request is a task of its own. The locks of the package are
// held for microseconds, never across a wait; see Host for the methods that are called with them.
package h2

import (
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/clock"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// A Conn is a connection of HTTP/2. Its frames are read by one task at a time, the reader. There is
// no reader while nothing comes. Each request is a task of its own. A task that has something to
// send sends it, with what other tasks have, unless a task is sending already (write.go).
//
//	open ─→ leaving ─→ closing ─→ shut ─→ over
//	  └────────┴──────────┴─── an error ──↗
//
// leaving: the client has been told to go, but what it sends is served. closing: it knows the last
// request that is going to be served. shut: our side is at its end, what still comes is dropped.
type Conn struct {
	Setting         // fixed
	rests   rester  // NC, if it can; fixed
	starts  starter // NC, or what is below; nil if it can't; fixed
	again   func()  // readClient, made once
	later   func()  // flushLater, made once

	writeBy int64 // what the deadline for writes is set to; 0: none; of the task that writes

	reading

	mu sync.Mutex // held for a few microseconds: no task waits while it holds mu
	streamTable
	windows
	output
	ending
}

// reading has the fields of the reader, as is ReadBy of the Setting.
type reading struct {
	in         *input // nil while it rests
	dec        *hpack.Decoder
	head       requestHead
	greeted    bool   // the preface has come
	settled    bool   // ... and SETTINGS
	begin      func() // a request that has come, to be started without mu
	discarding bool   // an error has ended the connection: what still comes is dropped
	headBy     int64  // when the head that is coming must have come, on the server's clock; 0: none is, or it may take for ever
	block      []byte // that of the last request, if no other can change what it means
	text       []byte // the head that block stands for
}

// A streamTable has the requests under way. It is guarded by mu.
type streamTable struct {
	streams     map[uint32]*Stream
	writers     []*Stream // that wait to send, or did since they were last woken
	handlers    int       // requests that are being served, also after a reset by the client
	starting    int       // ... whose tasks have not begun
	heads       int       // bytes of their heads
	last        uint32    // highest number of a stream so far
	cut         []uint32  // see cutOff
	uselessLeft int       // of MaxUseless, see countUseless
}

// windows are those of the connection (RFC 9113, 5.2), in bytes. They are guarded by mu.
type windows struct {
	sendWindow int64
	newWindow  int64 // what streams may send at first
	recvWindow int64
	credit     int64 // received and used, the client has not been told
}

// ending is how far the connection is on its way to the end. It is guarded by mu; times are readings of the server's clock.
type ending struct {
	leaving, closing, shut bool
	named                  uint32      // the last request that is served; set with closing
	ended                  bool        // the reader will not come back
	leaveTimer             *time.Timer // from leaving to closing
	idleSince              int64
	heard                  int64    // when something has come
	pinged                 int64    // when the client was asked whether it is there; 0: it need not answer
	lingerBy               int64    // set with shut
	gone                   []func() // to be called by unlock
}

// A Setting is what a connection of HTTP/2 has from the server.
type Setting struct {
	NC       net.Conn
	Secure   bool               // over TLS: a read may have to send something
	Host     Host               // the server
	Limits   *Limits            // of the server; not changed any more
	Clock    *clock.Clock       // of the server
	Entrance *ressched.Entrance // where requests enter; nil: they do by themselves
	ReadBy   int64              // what the deadline for reads is set to, on the clock; 0: none
	Prefix   []byte             // what has been read of the connection
}

// Host is the server, as a connection of HTTP/2 sees it. NewRequest, Awake and Rested are called with the lock of the
// connection and must not park; the others may.
type Host interface {
	// NewRequest makes room for a request that has come.
	NewRequest() Request
	// Awake takes the connection up from its rest for a request. It returns false if the connection is being closed to
	// make room.
	Awake() bool
	// Rested says that the connection has had no request since then, on the clock.
	Rested(since int64)
	// Late reads what there is although a read has met its deadline, and then there is no deadline any more.
	Late(b []byte) int
	// Changed says that Requests may return something else.
	Changed()
	// Forget is called once, when there is neither a reader nor a request: the end of the connection.
	Forget()
}

// Request is a request as the server has it: it embeds its Stream.
type Request interface {
	// Self is that of the Stream.
	Self() *Stream
	// Serve is the task of the request. It calls Begin and End of the Stream.
	Serve()
}

// rester is what a connection has that can wait without a task.
type rester interface{ OnReadable(fn func()) error }

// starter is what a *netpoll.Conn has, see ownconn.
type starter interface {
	StartAt(e *ressched.Entrance, fn func()) bool
}

// NewConn makes a connection of HTTP/2, whose first frames are ready to be sent.
func NewConn(on Setting) *Conn {
	h := &Conn{
		Setting:     on,
		streamTable: streamTable{streams: make(map[uint32]*Stream), uselessLeft: MaxUseless},
		windows:     windows{sendWindow: FirstWindow, newWindow: FirstWindow, recvWindow: on.Limits.ConnWindow},
		ending:      ending{idleSince: on.Clock.Now(), heard: on.Clock.Now()},
	}
	h.again, h.later = h.readClient, h.flushLater
	h.rests, _ = h.NC.(rester)
	raw := h.NC
	if below, ok := raw.(interface{ NetConn() net.Conn }); ok && h.Secure {
		raw = below.NetConn()
	}
	h.starts, _ = ownconn.Of(raw).(starter)
	// The size is that until the client knows of a smaller one. The length of a string has no limit besides fragment's for
	// a block: the decoder's would end the connection, and a head that is too large has an answer.
	h.dec = hpack.NewDecoder(max(h.Limits.Table, tableSize), h.head.field)
	h.enc = hpack.NewEncoder(&h.encoded)
	h.enc.SetMaxDynamicTableSizeLimit(h.Limits.EncoderTable)
	h.frames = http2.NewFramer(&h.output, nil)
	settings := []http2.Setting{
		{ID: http2.SettingMaxConcurrentStreams, Val: h.Limits.Streams},
		{ID: http2.SettingMaxHeaderListSize, Val: uint32(h.Limits.Head)},
		{ID: http2.SettingInitialWindowSize, Val: uint32(h.Limits.Window)},
	}
	if h.Limits.Frame != frameSize {
		settings = append(settings, http2.Setting{ID: http2.SettingMaxFrameSize, Val: h.Limits.Frame})
	}
	if h.Limits.Table != tableSize {
		settings = append(settings, http2.Setting{ID: http2.SettingHeaderTableSize, Val: h.Limits.Table})
	}
	h.frames.WriteSettings(settings...)
	if more := h.Limits.ConnWindow - FirstWindow; more > 0 {
		h.frames.WriteWindowUpdate(0, uint32(more))
	}
	return h
}

// unlock unlocks mu and calls the functions that wait for their client to leave.
func (h *Conn) unlock() {
	gone := h.gone
	h.gone = nil
	h.mu.Unlock()
	if len(gone) > 0 {
		go func() { // they may want locks that the caller has
			for _, fn := range gone {
				fn()
			}
		}()
	}
}

// start has fn run as a task of the connection's loop, through e if that is not nil. The caller must not have mu.
func (h *Conn) start(e *ressched.Entrance, fn func()) {
	if h.starts == nil || !h.starts.StartAt(e, fn) {
		tasks.SpawnApart(fn)
	}
}

// Begin starts the reader: what the connection does from now on it does by itself.
func (h *Conn) Begin() { h.start(nil, h.again) }

// Refuse ends a connection whose cipher may not be used (RFC 9113, 9.2.2). It is for before Begin.
func (h *Conn) Refuse() { h.fail(http2.ErrCodeInadequateSecurity) }

// Requests returns how many requests are being served, also after a reset by the client, and whether the reader has
// ended: then no other comes.
func (h *Conn) Requests() (n int, ended bool) {
	h.mu.Lock()
	defer h.unlock()
	return h.handlers, h.ended
}

// Unwritten reports whether something is still being written, such as the end of the last response to a slow client.
func (h *Conn) Unwritten() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.writing || len(h.out) > 0
}

// EachWriter calls fn for the requests that wait to send. fn must not wait.
func (h *Conn) EachWriter(fn func(Request)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, st := range h.writers {
		fn(st.of)
	}
}

// readClient is the reader: a task that starts when there is something to read. On what can't rest it
// stays until the end.
func (h *Conn) readClient() {
	for h.turn() {
		if h.rests == nil {
			continue
		}
		if h.rests.OnReadable(h.again) == nil {
			return // h may have another reader already
		}
		break
	}
	h.end()
}

// turn reads what there is. It returns false when there is nothing more to read.
func (h *Conn) turn() bool {
	h.in = inputs.Get().(*input)
	tasks.Buffers.Acquire(inputSize)
	h.in.h, h.in.r, h.in.w, h.in.err = h, 0, 0, nil
	if h.Secure { // a read may have to send something
		h.mu.Lock()
		if !h.writing {
			h.armWrite()
		}
		h.unlock()
	}
	rests := h.readFrames()
	tasks.Buffers.Release(inputSize)
	if rests && h.head.id == 0 && !h.discarding { // between two frames it has no state
		h.in.h = nil
		inputs.Put(h.in)
		h.head.rest()
	}
	h.in = nil
	return rests
}

func (h *Conn) readFrames() bool {
	in := h.in
	if n := copy(in.buf[:], h.Prefix); n > 0 {
		in.w, h.Prefix = n, h.Prefix[n:]
	} else if err := in.fill(); err != nil {
		return false
	}
	for i := 1; !h.discarding && (in.r < in.w || h.head.id != 0); i++ {
		if !h.frame() {
			return false
		}
		if i%64 == 0 {
			task.Yield()
		}
	}
	h.mu.Lock()
	defer h.unlock()
	h.kickLater()
	h.arm()
	return true
}

// end is called when the reader ends: nothing more can come.
func (h *Conn) end() {
	h.mu.Lock()
	h.breakOff()
	h.ended = true
	last := h.handlers == 0
	if h.leaveTimer != nil {
		h.leaveTimer.Stop()
	}
	h.unlock()
	h.NC.Close()
	if last {
		h.Host.Forget()
	}
}

// breakOff ends all requests, as nothing more can be sent. It needs mu.
func (h *Conn) breakOff() {
	h.over, h.shut = true, true
	h.release(h.out)
	h.out = nil
	h.dropStreams()
}

// dropStreams needs mu.
func (h *Conn) dropStreams() {
	for _, id := range slices.Sorted(maps.Keys(h.streams)) {
		st := h.streams[id]
		delete(h.streams, id)
		st.drop()
	}
}

// fail ends the connection because of an error of the client. It is the reader's.
func (h *Conn) fail(code http2.ErrCode) {
	h.discarding = true
	h.mu.Lock()
	defer h.unlock()
	if h.shut {
		return
	}
	h.Limits.Count("conn_" + code.String())
	h.failed = true
	h.goAway(code)
	h.dropStreams()
	h.kick()
}

var farewellPing = [8]byte([]byte("farewell"))

// Leave tells the client to send no further requests, and later which was the last one (RFC 9113, 6.8):
// when it has answered a PING behind the first news, or has had the time to.
func (h *Conn) Leave() {
	h.mu.Lock()
	defer h.unlock()
	if h.leaving || h.closing || h.ended {
		return
	}
	h.leaving = true
	h.frames.WriteGoAway(largestID, http2.ErrCodeNo, nil)
	h.frames.WritePing(false, farewellPing)
	h.leaveTimer = time.AfterFunc(h.Limits.Farewell, func() {
		h.mu.Lock()
		defer h.unlock()
		h.close()
	})
	h.kick()
}

// close names the last request that is served. It needs mu.
func (h *Conn) close() {
	if h.closing || h.over {
		return
	}
	h.goAway(http2.ErrCodeNo)
	h.kick()
}

// goAway names the last request that is served, and never a later one than before (RFC 9113, 6.8). It needs mu.
func (h *Conn) goAway(code http2.ErrCode) {
	if !h.closing {
		h.closing, h.named = true, h.last
	}
	h.frames.WriteGoAway(h.named, code, nil)
}

// Expel closes, in a task, a connection that has no request and that the server has chosen to make room.
func (h *Conn) Expel() { h.start(nil, h.expel) }

func (h *Conn) expel() {
	h.mu.Lock()
	h.close()
	h.breakOff()
	h.unlock()
	h.NC.Close()
}

// due is when there is something to do though nothing has come; 0: never. It needs mu.
func (h *Conn) due() int64 {
	if h.shut {
		return h.lingerBy
	}
	due := h.headBy
	least := func(at int64, d time.Duration) {
		if d > 0 && (due == 0 || at+int64(d) < due) {
			due = at + int64(d)
		}
	}
	switch {
	case h.pinged != 0:
		least(h.pinged, h.Limits.PingWait)
	default:
		least(h.heard, h.Limits.PingAfter)
	}
	switch {
	case h.closing:
	case h.handlers == 0:
		least(h.idleSince, h.Limits.Idle)
	default:
		least(h.Clock.Now(), h.Limits.Idle) // then it looks again
	}
	return due
}

// arm leaves an earlier deadline alone: when that passes, the reader looks again. It needs mu.
func (h *Conn) arm() {
	switch due := h.due(); {
	case due == 0 && h.ReadBy != 0:
		h.ReadBy = 0
		h.NC.SetReadDeadline(time.Time{})
	case due != 0 && (h.ReadBy == 0 || h.ReadBy > due):
		h.ReadBy = due
		h.NC.SetReadDeadline(h.Clock.At(due))
	}
}

// armWrite gives the coming write between the limit and twice that, so that a deadline is set at most once in a limit.
func (h *Conn) armWrite() {
	limit := int64(h.Limits.Write)
	if limit <= 0 {
		return
	}
	if now := h.Clock.Now(); h.writeBy < now+limit || h.writeBy > now+2*limit {
		h.writeBy = now + 2*limit
		h.NC.SetWriteDeadline(h.Clock.At(h.writeBy))
	}
}

// overslept does what is due when a read has met its deadline. It returns false if the
// connection is at its end.
func (h *Conn) overslept() bool {
	h.mu.Lock()
	defer h.unlock()
	now := int64(h.Clock.Elapsed())
	h.ReadBy = 0
	passed := func(at int64, d time.Duration) bool { return d > 0 && now >= at+int64(d) }
	switch {
	case h.shut:
		if now >= h.lingerBy {
			return false
		}
	case h.pinged != 0 && passed(h.pinged, h.Limits.PingWait):
		return false
	case h.headBy != 0 && now >= h.headBy:
		return false
	case h.handlers == 0 && passed(h.idleSince, h.Limits.Idle):
		h.close()
	case h.pinged == 0 && passed(h.heard, h.Limits.PingAfter):
		h.pinged = now
		h.frames.WritePing(false, [8]byte{})
		h.kickLater()
	}
	h.arm()
	return true
}
