//go:build linux

package simserver

import (
	"bytes"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Request is one request of a simulated client. Its fields are the conductor's once it
// has been sent.
type Request struct {
	Path string
	Body int // bytes of a POST; 0: a GET
	Want int // bytes of the answer with status 200, those of pattern; 0: not known
	// Done is called when the request has ended, on the conductor; may be nil.
	Done func(*Request)

	Status int           // of the answer; 0: there was none
	Got    int           // bytes of the answer's body
	Sent   time.Duration // when the client wanted to send it
	Ended  time.Duration
	Later  bool // the answer asks to try again later, on this connection: the admission has refused it
	half   bool // the client had said that it sends no more
	ended  bool
}

// Took is how long the client waited.
func (r *Request) Took() time.Duration { return r.Ended - r.Sent }

// takes compares a part of the answer's body with what it should be.
func (r *Request) takes(w *World, b []byte) {
	if r.Status == 200 && r.Want > 0 && (r.Got+len(b) > r.Want || !bytes.Equal(b, pattern[r.Got:r.Got+len(b)])) {
		w.fault("the answer to %s is wrong in the %d bytes from %d on", r.Path, len(b), r.Got)
	}
	r.Got += len(b)
}

// A Session is a client on one connection. Only the conductor uses its fields.
type Session struct {
	w       *World
	c       *Clients
	link    *Link
	wire    wire
	waiting []*Request // in the order in which they were begun
	up      bool
	gone    bool
	queued  []byte // sent before the connection was there
	half    bool   // CloseWrite was called
	lastOne bool   // no further request is to be sent
}

// A wire is the protocol that a session speaks. Only the conductor calls its methods.
type wire interface {
	// send sends a request, which the session has noted as unanswered.
	send(r *Request)
	received(b []byte)
	// owed is a request that the server must answer before it ends the connection; nil:
	// there is none.
	owed() *Request
	// most is how many requests the client sends at a time, of different users.
	most() int
	// cancel tells the server that the client no longer wants the answer to r; false: the protocol
	// can't say so, and the client has to close the connection.
	cancel(r *Request) bool
}

// Open begins a connection, of HTTP/2 if habit is not nil.
func (c *Clients) Open(path Path, habit *HTTP2) *Session {
	s := &Session{w: c.w, c: c}
	c.open++
	s.link = c.w.Connect(c.Port, path, s)
	if habit != nil {
		s.wire = newHTTP2Wire(s, habit)
	} else {
		s.wire = &http1Wire{s: s}
	}
	return s
}

func (s *Session) connected() {
	s.up = true
	if len(s.queued) > 0 {
		s.link.Send(s.queued)
		s.queued = nil
	}
	if s.half {
		s.link.CloseWrite()
	}
}

// CloseWrite ends the client's side of the connection behind what it has sent.
func (s *Session) CloseWrite() {
	s.half = true
	if s.up {
		s.link.CloseWrite()
	}
}

// transmit sends b as soon as there is a connection. It is the callee's from then on.
func (s *Session) transmit(b []byte) {
	if s.up {
		s.link.Send(b)
	} else {
		s.queued = joined(s.queued, b)
	}
}

// Send sends requests, one behind the other.
func (s *Session) Send(all ...*Request) {
	for _, r := range all {
		r.Sent = s.w.Now()
		s.c.begin(r)
		if s.gone {
			s.c.end(r, 0, "the connection had ended")
			continue
		}
		s.waiting = append(s.waiting, r)
		s.wire.send(r)
	}
}

// done ends a request, if it still waits.
func (s *Session) done(r *Request, status int, why string) {
	i := slices.Index(s.waiting, r)
	if i < 0 {
		return
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	r.half = s.half
	s.c.end(r, status, why)
}

// received hands b, sent by the server, to the protocol, unless the client has left.
func (s *Session) received(b []byte) {
	if !s.gone {
		s.wire.received(b)
	}
}

func (s *Session) ended(e syscall.Errno) {
	if s.gone {
		return
	}
	s.gone = true
	s.link.Close()
	s.c.open--
	why := "closed"
	if e != 0 {
		why = e.Error()
	}
	if r := s.wire.owed(); r != nil && e != unix.ECONNABORTED && e != unix.ETIMEDOUT && !s.c.Dropped && !s.link.crossed() {
		s.w.fault("the connection ended (%s) with no answer to request %s of %v", why, r.Path, r.Sent)
	}
	s.fail(why)
}

func (s *Session) fail(why string) {
	all := s.waiting
	s.waiting = nil
	for _, r := range all {
		s.c.end(r, 0, why)
	}
}

// GiveUp has the client of r want no answer any more: it tells the server so, or closes the connection where the protocol
// can't.
func (s *Session) GiveUp(r *Request, why string, abort bool) {
	switch {
	case r.ended || s.gone:
	case s.wire.cancel(r):
		s.done(r, 0, why)
	default:
		s.Close(why, abort)
	}
}

// Close ends the connection from the client's side, with abort by a reset.
func (s *Session) Close(why string, abort bool) {
	if s.gone {
		return
	}
	s.gone = true
	s.c.open--
	if abort {
		s.link.Abort()
	} else {
		s.link.Close()
	}
	s.fail(why)
}

// pattern is what bodies consist of, of requests and of answers.
var pattern = func() []byte {
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*31 ^ byte(i>>16)*57
	}
	return b
}()

// A mute is a client that says nothing, or not enough.
type mute struct {
	c     *Clients
	link  *Link
	says  string
	since time.Duration
}

func (m *mute) connected()        { m.link.Send([]byte(m.says)) }
func (m *mute) received(b []byte) {}
func (m *mute) ended(syscall.Errno) {
	m.link.Close()
	m.c.open--
}

// Mute opens a connection, sends a text, and leaves it to the server to end it, which has to
// be done within the given time.
func (c *Clients) Mute(path Path, says string, within time.Duration) {
	m := &mute{c: c, says: says, since: c.w.Now()}
	c.open++
	m.link = c.w.Connect(c.Port, path, m)
	c.w.After(within, func() {
		if m.link.alive() {
			c.w.fault("a client that has sent %q at %v and no more is still connected", says, m.since)
		}
	})
}
