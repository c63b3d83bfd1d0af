package apps

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// A room passes on what each of its members says to all of them.
type room struct {
	mu      sync.Mutex
	members map[*member]bool // guarded by mu
	full    chan struct{}    // closed when size have come
	size    int
}

type member struct {
	mu   sync.Mutex // one writer at a time
	send func(message []byte) error
}

// join serves a member until it leaves; receive returns what it says next.
func (r *room) join(send func([]byte) error, receive func() ([]byte, error)) {
	m := &member{send: send}
	r.mu.Lock()
	r.members[m] = true
	if len(r.members) == r.size {
		close(r.full)
	}
	r.mu.Unlock()
	for {
		message, err := receive()
		r.mu.Lock()
		if err != nil {
			delete(r.members, m)
			r.mu.Unlock()
			return
		}
		all := make([]*member, 0, len(r.members))
		for m := range r.members {
			all = append(all, m)
		}
		r.mu.Unlock()
		for _, m := range all {
			m.mu.Lock()
			m.send(message) // to one that has left it fails
			m.mu.Unlock()
		}
	}
}

func (r *room) gorilla(w http.ResponseWriter, req *http.Request) {
	up := gorilla.Upgrader{}
	if c, err := up.Upgrade(w, req, nil); err == nil {
		defer c.Close()
		r.join(func(b []byte) error { return c.WriteMessage(gorilla.TextMessage, b) },
			func() ([]byte, error) { _, b, err := c.ReadMessage(); return b, err })
	}
}

func (r *room) coder(w http.ResponseWriter, req *http.Request) {
	if c, err := websocket.Accept(w, req, nil); err == nil {
		defer c.CloseNow()
		ctx := req.Context()
		r.join(func(b []byte) error { return c.Write(ctx, websocket.MessageText, b) },
			func() ([]byte, error) { _, b, err := c.Read(ctx); return b, err })
	}
}

// TestChat: what each of some members of a large room says comes to all, with and without TLS.
func TestChat(t *testing.T) {
	const talkers = 10
	theirs := httptest.NewTLSServer(nil)
	defer theirs.Close()
	for name, handler := range map[string]func(*room, http.ResponseWriter, *http.Request){"gorilla": (*room).gorilla, "coder": (*room).coder} {
		for scheme, members := range map[string]int{"ws": 2000, "wss": 400} { // a handshake costs a millisecond or two
			t.Run(name+" "+scheme, func(t *testing.T) {
				r := &room{members: make(map[*member]bool), full: make(chan struct{}), size: members}
				addr := serve(t, 2, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { handler(r, w, req) }), func(s *knot.Server) {
					if scheme == "wss" {
						s.TLS = &tls.Config{Certificates: theirs.TLS.Certificates, NextProtos: []string{"http/1.1"}}
					}
				})
				chat(t, r, scheme+"://"+addr+"/", members, talkers)
			})
		}
	}
}

func chat(t *testing.T, r *room, url string, members, talkers int) {
	dialer := gorilla.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	all := make([]*gorilla.Conn, members)
	for i := range all {
		c, _, err := dialer.Dial(url, nil)
		testenv.Must(t, err)
		defer c.Close()
		c.SetReadDeadline(time.Now().Add(time.Minute))
		all[i] = c
	}
	<-r.full
	var listeners sync.WaitGroup
	for _, c := range all {
		listeners.Go(func() {
			heard := make(map[string]bool)
			for range talkers {
				_, message, err := c.ReadMessage()
				if err != nil {
					t.Error(err)
					return
				}
				heard[string(message)] = true
			}
			if len(heard) != talkers {
				t.Errorf("of %d messages %d came", talkers, len(heard))
			}
		})
	}
	for i := range talkers {
		testenv.Check(t, all[i*members/talkers].WriteMessage(gorilla.TextMessage, fmt.Appendf(nil, "message %d", i)))
	}
	listeners.Wait()
}
