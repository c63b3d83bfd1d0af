//go:build linux

package simserver

import (
	"bytes"
	"fmt"
	"strconv"
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
	Failed string        // why not
	Got    int           // bytes of the answer's body
	Sent   time.Duration // when the client wanted to send it
	Ended  time.Duration
	Later  bool // the answer asks to try again later: the admission has refused it
	half   bool // the client had said that it sends no more
	ended  bool
}

// Took is how long the client waited.
func (r *Request) Took() time.Duration { return r.Ended - r.Sent }

func (r *Request) head() []byte {
	if r.Body > 0 {
		return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: sim\r\nContent-Length: %d\r\n\r\n", r.Path, r.Body)
	}
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: sim\r\n\r\n", r.Path)
}

// A Session is an HTTP client on one connection: requests are answered in their order.
// All is the conductor's.
type Session struct {
	w       *World
	c       *Clients
	link    *Link
	waiting []*Request
	up      bool
	gone    bool
	queued  []byte // sent before the connection was there
	in      []byte
	left    int  // bytes of the present body to come; -1: chunked
	inBody  bool // of waiting[0]
	half    bool // CloseWrite was called
	lastOne bool // the server said that it closes
	// Lost is called when the connection has ended; may be nil.
	Lost func()
}

// Open begins a connection.
func (c *Clients) Open(path Path) *Session {
	s := &Session{w: c.w, c: c}
	c.open++
	s.link = c.w.Connect(c.Port, path, s)
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
		b := append(r.head(), make([]byte, r.Body)...)
		if s.up {
			s.link.Send(b)
		} else {
			s.queued = append(s.queued, b...)
		}
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
	if len(s.waiting) > 0 && !s.inBody && !s.lastOne && e != unix.ECONNABORTED && e != unix.ETIMEDOUT && !s.c.Dropped && !s.link.crossed() {
		s.w.fault("the connection ended (%s) with no answer to request %s of %v", why, s.waiting[0].Path, s.waiting[0].Sent)
	}
	s.fail(why)
	if s.Lost != nil {
		s.Lost()
	}
}

func (s *Session) fail(why string) {
	all := s.waiting
	s.waiting = nil
	for _, r := range all {
		s.c.end(r, 0, why)
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

var headEnd = []byte("\r\n\r\n")

// received parses answers.
func (s *Session) received(b []byte) {
	if s.gone {
		return
	}
	if len(s.in) == 0 {
		s.in = b // nobody else writes there
	} else {
		s.in = append(s.in, b...)
	}
	for len(s.in) > 0 && len(s.waiting) > 0 {
		r := s.waiting[0]
		if !s.inBody {
			i := bytes.Index(s.in, headEnd)
			if i < 0 {
				return
			}
			s.head(r, s.in[:i+2])
			s.in = s.in[i+4:]
			s.inBody = true
		}
		if !s.body(r) {
			return
		}
		s.inBody = false
		r.half = s.half
		s.waiting = s.waiting[1:]
		s.c.end(r, r.Status, "")
	}
}

func (s *Session) head(r *Request, head []byte) {
	if len(head) > 12 {
		r.Status, _ = strconv.Atoi(string(head[9:12]))
	}
	s.left = 0
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			s.left, _ = strconv.Atoi(string(value))
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			s.left = -1
		case bytes.EqualFold(name, []byte("Retry-After")):
			r.Later = true
		case bytes.EqualFold(name, []byte("Connection")) && bytes.EqualFold(value, []byte("close")):
			s.lastOne = true
		}
	}
}

// pattern is what answers consist of.
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

// body takes what there is of the body; true: that was the end.
func (s *Session) body(r *Request) bool {
	if s.left >= 0 {
		k := min(s.left, len(s.in))
		if r.Status == 200 && r.Want > 0 && (r.Got+k > r.Want || !bytes.Equal(s.in[:k], pattern[r.Got:r.Got+k])) {
			s.c.w.fault("the answer to %s is wrong in the %d bytes from %d on", r.Path, k, r.Got)
		}
		s.left -= k
		r.Got += k
		s.in = s.in[k:]
		return s.left == 0
	}
	for {
		i := bytes.Index(s.in, headEnd[:2])
		if i < 0 {
			return false
		}
		n, err := strconv.ParseUint(string(s.in[:i]), 16, 31)
		if err != nil {
			s.c.w.fault("a chunk of %q bytes", s.in[:i])
			return true
		}
		if len(s.in) < i+2+int(n)+2 {
			return false
		}
		s.in = s.in[i+2+int(n)+2:]
		r.Got += int(n)
		if n == 0 {
			return true
		}
	}
}
