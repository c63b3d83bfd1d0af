package knot

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/peerwatch"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// A noteTaker is a Receiver that notes what it is told.
type noteTaker struct {
	text strings.Builder
	most int // bytes of a body that it takes; 0: all
	got  int
	over *task.Chan[string]
}

func (r *noteTaker) Head(status int, length int64, each func(func(name, value []byte) bool)) error {
	fmt.Fprintf(&r.text, "%d %d", status, length)
	each(func(name, value []byte) bool {
		if string(name) != "Date" {
			fmt.Fprintf(&r.text, " %s=%s", name, value)
		}
		return true
	})
	return nil
}

func (r *noteTaker) Body(piece []byte) error {
	if r.got += len(piece); r.most > 0 && r.got > r.most {
		return errors.New("enough")
	}
	if r.got < 100 {
		fmt.Fprintf(&r.text, " %q", piece)
	}
	return nil
}

func (r *noteTaker) End(err error) {
	fmt.Fprintf(&r.text, " %d bytes, %v", r.got, err)
	r.over.Send(r.text.String())
}

// TestFetch: what the receiver is told of an answer.
func TestFetch(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	for _, c := range []struct {
		about  string
		head   string
		most   int
		answer Handler
		want   string
	}{
		{"a response at once", "GET /a?b HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n", 0, func(x *Ctx) error {
			return x.SendString(203, "text/plain", x.Method()+x.Path()+x.Query()+x.Host()+x.Header("x"))
		}, `203 8 Content-Type=text/plain "GET/abhy" 8 bytes, <nil>`},
		{"in pieces", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, func(x *Ctx) error {
			x.WriteString("a")
			x.Flush()
			x.WriteString("bc")
			return nil
		}, `200 -1 "a" "bc" 3 bytes, <nil>`},
		{"long", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, func(x *Ctx) error {
			_, err := x.WriteString(long)
			return err
		}, "200 -1 300000 bytes, <nil>"},
		{"long, of a length", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, func(x *Ctx) error {
			x.SetContentLength(int64(len(long)))
			_, err := x.WriteString(long)
			return err
		}, "200 300000 300000 bytes, <nil>"},
		{"more than is wanted", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 100, func(x *Ctx) error {
			_, err := x.WriteString(long)
			return err
		}, "200 -1 262144 bytes, enough"},
		{"head only", "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", 0, func(x *Ctx) error {
			x.SetContentLength(5)
			return (*inner)(x).SendHead()
		}, "200 5 0 bytes, <nil>"},
		{"no body", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, func(x *Ctx) error { return x.Send(304, "", nil) }, "304 -1 0 bytes, <nil>"},
		{"informational", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, func(x *Ctx) error {
			x.Inform(103)
			return x.SendString(200, "", "x")
		}, `200 1 "x" 1 bytes, <nil>`},
		{"an error", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, func(x *Ctx) error { return Status(404) }, " 0 bytes, " + Status(404).Error()},
		{"less than was said", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, func(x *Ctx) error {
			x.SetContentLength(5) // nothing of it was flushed: there is no response
			x.WriteString("abc")
			return nil
		}, ` 0 bytes, ` + ErrTooShort.Error()},
		{"a panic", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, func(x *Ctx) error { panic("x") }, " 0 bytes, knot: the handler of a fetch has panicked: x"},
		{"no request", "GET / HTTP/1.1\r\n\r\n", 0, func(x *Ctx) error { return nil }, " 0 bytes, knot: the head of a fetch: "},
		{"where it is from", "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n", 0, func(x *Ctx) error {
			trust, _ := ParseTrust("127.0.0.1")
			return x.SendString(200, "", fmt.Sprint((*inner)(x).c.remoteHost(), x.TrustPeers(trust), x.ClientAddr(), x.TLS() == nil))
		}, `200 28 "127.0.0.1true 192.0.2.1 true" 28 bytes, <nil>`},
	} {
		t.Run(c.about, func(t *testing.T) {
			r := &noteTaker{most: c.most, over: task.NewChan[string](1)}
			sv := startServer(t, &Server{Handler: func(x *Ctx) error {
				(*inner)(x).Fetch([]byte(c.head), c.answer, r)
				return x.SendString(200, "", "the client's")
			}}, 1)
			nc := testenv.Dial(t, sv.addr)
			defer nc.Close()
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			testenv.Contains(t, string(testenv.Need(io.ReadAll(nc))(t)), "the client's")
			got, _ := r.over.Recv()
			if !strings.HasPrefix(strings.TrimSpace(got), strings.TrimSpace(c.want)) {
				t.Errorf("%q; want %q", got, c.want)
			}
		})
	}
}

// TestFetchUser: a fetch is made in the name of the client of its request, so that a program behind a cache gets the name.
func TestFetchUser(t *testing.T) {
	r := &noteTaker{over: task.NewChan[string](1)}
	sv := startServer(t, &Server{Handler: func(x *Ctx) error {
		x.SetUser("alice")
		(*inner)(x).Fetch([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), func(x *Ctx) error { return x.SendString(200, "", x.User()) }, r)
		return nil
	}}, 1)
	sv.exchange("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	got, _ := r.over.Recv()
	testenv.Contains(t, got, `"alice"`)
}

// TestFetchStop: stop is to the handler what a client is that goes, also if it comes first.
func TestFetchStop(t *testing.T) {
	r := &noteTaker{over: task.NewChan[string](1)}
	asked := task.NewChan[struct{}](0)
	sv := startServer(t, &Server{Handler: func(x *Ctx) error {
		stop := (*inner)(x).Fetch([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), func(x *Ctx) error {
			for range 2 { // the second time it has been stopped before
				gone := task.NewChan[struct{}](1)
				var w peerwatch.Watch
				(*inner)(x).WhenGone(&w, func() { gone.TrySend(struct{}{}) })
				asked.TrySend(struct{}{})
				gone.Recv()
				w.Stop()
			}
			return x.SendString(200, "", "x")
		}, r)
		asked.Recv()
		stop()
		stop()
		return nil
	}}, 1)
	nc := testenv.Dial(t, sv.addr)
	defer nc.Close()
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	got, _ := r.over.Recv()
	testenv.Equal(t, got, " 0 bytes, "+errStopped.Error())
	testenv.Need(io.ReadAll(nc))(t)
}
