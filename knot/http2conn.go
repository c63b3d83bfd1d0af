package knot

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// An h2Conn is a connection of HTTP/2. Its frames are read by one task at a time, the reader, of which there is
// none while nothing comes; each request is a task of its own; and a task that has something to
// send sends it, with what others have, unless one is sending already (http2write.go).
//
//	open ─→ leaving ─→ closing ─→ shut ─→ over
//	  └────────┴──────────┴─── an error ──↗
//
// leaving: the client has been told to go, but what it sends is served. closing: it knows the last
// request that is going to be served. shut: our side is at its end, what still comes is dropped.
type h2Conn struct {
	c      *conn     // fixed
	srv    *Server   // fixed
	limits *h2Limits // fixed
	starts starter   // c.nc, or what is below; nil if it can't; fixed
	again  func()    // readClient, made once
	later  func()    // flushLater, made once

	telling task.Mutex // of calls of ConnState

	// The reader's.
	in      *h2Input // nil while it rests
	prefix  []byte
	dec     *hpack.Decoder
	head    h2Head
	greeted bool   // the preface has come
	settled bool   // ... and SETTINGS
	begin   func() // a request that has come, to be started without mu
	deaf    bool   // an error has ended the connection
	headBy  int64  // when the head that is coming must have come, on the server's clock; 0: none is, or it may take for ever
	block   []byte // that of the last request, if no other can change what it means
	text    []byte // the head that block stands for

	mu         sync.Mutex // held for a few microseconds: nobody waits with it
	streams    map[uint32]*stream
	writers    []*stream // that wait to send, or did since they were last woken
	handlers   int       // requests that are being served, those that the client has reset included
	starting   int       // ... whose tasks have not begun
	heads      int       // bytes of their heads
	last       uint32    // highest number of a stream so far
	cut        []uint32  // see cutOff
	patience   int       // see nuisance
	sendWindow int64
	newWindow  int64 // what streams may send at first
	recvWindow int64
	credit     int64 // received and used, the client has not been told
	h2Output

	leaving, closing, shut bool
	ended                  bool        // the reader will not come back
	leaveTimer             *time.Timer // from leaving to closing
	idleSince              int64       // readings of the server's clock
	heard                  int64       // when something has come
	pinged                 int64       // when the client was asked whether it is there; 0: it need not answer
	lingerBy               int64       // set with shut
	gone                   []func()    // to be called by unlock
}

// starter is what a *netpoll.Conn has.
type starter interface {
	StartAt(e *ressched.Entrance, fn func()) bool
}

func newH2Conn(c *conn, prefix []byte) *h2Conn {
	s := c.srv
	h := &h2Conn{
		c: c, srv: s, limits: &s.limits.h2, prefix: prefix, streams: make(map[uint32]*stream),
		sendWindow: firstWindow, newWindow: firstWindow, recvWindow: s.limits.h2.connWindow,
		patience: h2Patience, idleSince: s.clock.Now(), heard: s.clock.Now(),
	}
	h.again, h.later = h.readClient, h.flushLater
	raw := c.nc
	if secure := secureOf(raw); secure != nil {
		raw = secure.raw
	}
	h.starts, _ = raw.(starter)
	// The size is that until the client knows of a smaller one. The length of a string has no limit besides fragment's for
	// a block: the decoder's would end the connection, and a head that is too large has an answer.
	h.dec = hpack.NewDecoder(max(h.limits.table, h2TableSize), h.head.field)
	h.enc = hpack.NewEncoder(&h.encoded)
	h.enc.SetMaxDynamicTableSizeLimit(h.limits.encoderTable)
	h.frames = http2.NewFramer(&h.h2Output, nil)
	settings := []http2.Setting{
		{ID: http2.SettingMaxConcurrentStreams, Val: h.limits.streams},
		{ID: http2.SettingMaxHeaderListSize, Val: uint32(s.limits.head.Size)},
		{ID: http2.SettingInitialWindowSize, Val: uint32(h.limits.window)},
	}
	if h.limits.frame != h2FrameSize {
		settings = append(settings, http2.Setting{ID: http2.SettingMaxFrameSize, Val: h.limits.frame})
	}
	if h.limits.table != h2TableSize {
		settings = append(settings, http2.Setting{ID: http2.SettingHeaderTableSize, Val: h.limits.table})
	}
	h.frames.WriteSettings(settings...)
	if more := h.limits.connWindow - firstWindow; more > 0 {
		h.frames.WriteWindowUpdate(0, uint32(more))
	}
	return h
}

// unlock unlocks mu and calls those that want to know that their client is gone.
func (h *h2Conn) unlock() {
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
func (h *h2Conn) start(e *ressched.Entrance, fn func()) {
	if h.starts == nil || !h.starts.StartAt(e, fn) {
		spawnApart(fn)
	}
}

// readClient is the reader: a task that starts when there is something to read. On what can't rest it
// stays until the end.
func (h *h2Conn) readClient() {
	for h.turn() {
		w := h.c.waiter()
		if w == nil {
			continue
		}
		if w.OnReadable(h.again) == nil {
			return // h may have another reader already
		}
		break
	}
	h.end()
}

// turn reads what there is. It returns false when there is nothing more to read.
func (h *h2Conn) turn() bool {
	h.in = h2Inputs.Get().(*h2Input)
	bufferBytes.Acquire(h2InputSize)
	h.in.h, h.in.r, h.in.w, h.in.err = h, 0, 0, nil
	if secureOf(h.c.nc) != nil { // a read may have to send something
		h.mu.Lock()
		if !h.writing {
			h.c.armWrite(h.limits.write)
		}
		h.unlock()
	}
	rests := h.readFrames()
	bufferBytes.Release(h2InputSize)
	if rests && h.head.id == 0 && !h.deaf { // between two frames it has no state
		h.in.h = nil
		h2Inputs.Put(h.in)
		h.head.rest()
	}
	h.in = nil
	return rests
}

func (h *h2Conn) readFrames() bool {
	in := h.in
	if n := copy(in.buf[:], h.prefix); n > 0 {
		in.w, h.prefix = n, h.prefix[n:]
	} else if err := in.fill(); err != nil {
		return false
	}
	for i := 1; !h.deaf && (in.r < in.w || h.head.id != 0); i++ {
		if !h.frame() {
			return false
		}
		if i%64 == 0 {
			yield()
		}
	}
	h.mu.Lock()
	defer h.unlock()
	h.kick()
	h.arm()
	return true
}

// end is called when the reader ends: nothing more can come.
func (h *h2Conn) end() {
	h.mu.Lock()
	h.breakOff()
	h.ended = true
	last := h.handlers == 0
	if h.leaveTimer != nil {
		h.leaveTimer.Stop()
	}
	h.unlock()
	h.c.nc.Close()
	if last {
		h.forget()
	}
}

// forget is called once, when there is neither a reader nor a request.
func (h *h2Conn) forget() {
	h.tell()
	if s := secureOf(h.c.nc); s != nil {
		s.record.release()
	}
	h.srv.forget(h.c)
}

// breakOff ends all requests, as nothing more can be sent. It needs mu.
func (h *h2Conn) breakOff() {
	h.over, h.shut = true, true
	h.release(h.out)
	h.out = nil
	h.dropStreams()
}

// dropStreams needs mu.
func (h *h2Conn) dropStreams() {
	for _, id := range slices.Sorted(maps.Keys(h.streams)) {
		st := h.streams[id]
		delete(h.streams, id)
		st.drop()
	}
}

// fail ends the connection because of an error of the client. It is the reader's.
func (h *h2Conn) fail(code http2.ErrCode) {
	h.deaf = true
	h.mu.Lock()
	defer h.unlock()
	if h.shut {
		return
	}
	h.limits.count("conn_" + code.String())
	h.frames.WriteGoAway(h.last, code, nil)
	h.closing, h.failed = true, true
	h.dropStreams()
	h.kick()
}

var farewellPing = [8]byte([]byte("farewell"))

// leave tells the client to send no further requests, and later which was the last one (RFC 9113, 6.8):
// when it has answered a PING behind the first news, or has had the time to.
func (h *h2Conn) leave() {
	h.mu.Lock()
	defer h.unlock()
	if h.leaving || h.closing || h.ended {
		return
	}
	h.leaving = true
	h.frames.WriteGoAway(largestID, http2.ErrCodeNo, nil)
	h.frames.WritePing(false, farewellPing)
	h.leaveTimer = time.AfterFunc(h.srv.limits.farewell, func() {
		h.mu.Lock()
		defer h.unlock()
		h.close()
	})
	h.kick()
}

// close names the last request that is served. It needs mu.
func (h *h2Conn) close() {
	if h.closing || h.over {
		return
	}
	h.closing = true
	h.frames.WriteGoAway(h.last, http2.ErrCodeNo, nil)
	h.kick()
}

// expel closes a connection that has no request and that makeRoom has chosen.
func (h *h2Conn) expel() {
	h.mu.Lock()
	h.close()
	h.breakOff()
	h.unlock()
	h.c.nc.Close()
}

// due is when there is something to do though nothing has come; 0: never. It needs mu.
func (h *h2Conn) due() int64 {
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
		least(h.pinged, h.limits.pingWait)
	default:
		least(h.heard, h.limits.pingAfter)
	}
	switch {
	case h.closing:
	case h.handlers == 0:
		least(h.idleSince, h.srv.limits.idle)
	default:
		least(h.srv.clock.Now(), h.srv.limits.idle) // then it looks again
	}
	return due
}

// arm leaves an earlier deadline alone, as conn.armIdle does. It needs mu.
func (h *h2Conn) arm() {
	switch due := h.due(); {
	case due == 0 && h.c.readBy != 0:
		h.c.clearRead()
	case due != 0 && (h.c.readBy == 0 || h.c.readBy > due):
		h.c.setRead(due)
	}
}

// overslept does what is due when a read has met its deadline. It returns false if the
// connection is at its end.
func (h *h2Conn) overslept() bool {
	h.mu.Lock()
	defer h.unlock()
	now := int64(h.srv.clock.Elapsed())
	h.c.readBy = 0
	passed := func(at int64, d time.Duration) bool { return d > 0 && now >= at+int64(d) }
	switch {
	case h.shut:
		if now >= h.lingerBy {
			return false
		}
	case h.pinged != 0 && passed(h.pinged, h.limits.pingWait):
		return false
	case h.headBy != 0 && now >= h.headBy:
		return false
	case h.handlers == 0 && passed(h.idleSince, h.srv.limits.idle):
		h.close()
	case h.pinged == 0 && passed(h.heard, h.limits.pingAfter):
		h.pinged = now
		h.frames.WritePing(false, [8]byte{})
		h.kick()
	}
	h.arm()
	return true
}

// h2InputSize is that of the buffer that frames are read through, in bytes.
const h2InputSize = 16 << 10

// An h2Input is what a reader needs while it reads.
type h2Input struct {
	h      *h2Conn
	frames *http2.Framer
	err    error // of the connection
	r, w   int
	buf    [h2InputSize]byte
}

var h2Inputs = sync.Pool{New: func() any {
	in := new(h2Input)
	in.frames = http2.NewFramer(nil, in)
	in.frames.SetReuseFrames()
	return in
}}

var errNotNow = errors.New("knot: nothing has come in time")

// fill reads once; when nothing has come, but the connection may go on, the buffer is empty.
func (in *h2Input) fill() error {
	in.err = in.read()
	return in.err
}

func (in *h2Input) read() error {
	h := in.h
	n, err := h.c.nc.Read(in.buf[:])
	if n == 0 && timedOut(err) {
		if n = h.c.late(in.buf[:]); n == 0 {
			if in.r, in.w = 0, 0; h.overslept() {
				return nil
			}
			return errNotNow
		}
	}
	in.r, in.w = 0, n
	if n == 0 {
		if err == nil {
			err = io.EOF
		}
		return err
	}
	h.mu.Lock()
	now := h.srv.clock.Now()
	if past := (now - h.heard) / h2Forgives; past > 0 {
		h.use(int(min(past, h2Patience)))
	}
	h.heard, h.pinged = now, 0
	shut := h.shut
	h.mu.Unlock()
	if shut || h.deaf {
		in.w = 0
	}
	return nil
}

// Read implements io.Reader, for the Framer.
func (in *h2Input) Read(p []byte) (int, error) {
	for in.r == in.w {
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.buf[in.r:in.w])
	in.r += n
	return n, nil
}
