package knot

import (
	"fmt"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// A spy is a span that says how it has ended.
type spy struct{ ended chan string }

func (s *spy) Context() (parent, state string)          { return "", "" }
func (s *spy) Try(string) (t ownctx.Try, parent string) { return nil, "" }
func (s *spy) End(status int, bytes int64, took time.Duration) {
	s.ended <- fmt.Sprint(status, " ", bytes, " ", took > 0)
}

// TestSpansEnd: the span of a request ends once, however the request does: also one that is refused before its handler, that
// panics, or whose connection the handler takes over. A fetch for it leaves it alone.
func TestSpansEnd(t *testing.T) {
	span := &spy{make(chan string, 2)}
	begin := func(x *Ctx) { ownctx.Of(x).(*inner).SetSpan(span) }
	fetched := make(chan ownctx.Span, 1)
	sv := startServer(t, &Server{Timed: true, MaxBody: 1, ErrorPage: func(x *Ctx, status int) (string, []byte) {
		begin(x)
		return "text/plain", []byte("page")
	}, Handler: func(x *Ctx) error {
		begin(x)
		switch x.Path() {
		case "/panics":
			panic("on purpose")
		case "/hijacks":
			c, _, err := x.Hijack()
			testenv.Check(t, err)
			return c.Close()
		case "/fetches":
			note := &noteTaker{over: task.NewChan[string](1)}
			(*inner)(x).Fetch([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), func(x *Ctx) error {
				fetched <- (*inner)(x).Span()
				return x.SendString(200, "", "fetched")
			}, note)
			note.over.Recv()
		}
		return x.SendString(200, "", "ok")
	}}, 1)
	for _, c := range []struct{ request, want string }{
		{"GET / HTTP/1.1", "200 2 true"}, {"GET /panics HTTP/1.1", "500 4 true"}, {"GET /hijacks HTTP/1.1", "101 0 true"},
		{"PUT / HTTP/1.1\r\nContent-Length: 7", "413 4 true"}, {"GET /fetches HTTP/1.1", "200 2 true"},
	} {
		sv.exchange(c.request + "\r\nHost: h\r\nConnection: close\r\n\r\n")
		testenv.Equal(t, <-span.ended, c.want, "%q", c.request)
	}
	testenv.True(t, <-fetched == ownctx.Span(span), "a fetch has another span")
	testenv.Equal(t, len(span.ended), 0, "spans that end twice")
}
