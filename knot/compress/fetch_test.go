package compress

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
	"github.com/capriccio-go/capriccio/task"
)

// An ending is an ownctx.Receiver that only tells of the end.
type ending struct{ *task.Chan[error] }

func (ending) Head(int, int64, func(func(name, value []byte) bool)) error { return nil }
func (ending) Body([]byte) error                                          { return nil }
func (e ending) End(err error)                                            { e.TrySend(err) }

// TestFetch: the encoder of a response that was fetched, and broken off, is there for the next: there is memory for one.
func TestFetch(t *testing.T) {
	broken := Handler(func(x *knot.Ctx) error {
		x.SetContentType("text/plain")
		x.WriteString(short)
		x.Flush()
		return knot.Status(502)
	}, Options{Memory: 4 << 20, Codings: []string{"br"}})
	var coded atomic.Int32
	url := knottest.Serve(t, &knot.Server{ErrorLog: testenv.Quiet(), Handler: func(x *knot.Ctx) error {
		for range 3 {
			end := ending{task.NewChan[error](1)}
			ownctx.Of(x).(interface {
				Fetch(head []byte, h knot.Handler, to ownctx.Receiver) (stop func())
			}).Fetch([]byte("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n"), func(y *knot.Ctx) error {
				y.Filter(lookFor(func(h knot.ResponseHead) {
					if h.Get("Content-Encoding") == "br" {
						coded.Add(1)
					}
				}))
				return broken(y)
			}, end)
			end.Recv()
		}
		return nil
	}})
	testenv.Get(t, http.DefaultClient, url)
	testenv.Equal(t, coded.Load(), 3, "coded responses")
}

// lookFor makes a Filter of fn.
func lookFor(fn func(h knot.ResponseHead)) knot.Filter { return &look{fn} }

type look struct{ fn func(h knot.ResponseHead) }

func (l *look) FilterHead(_ *knot.Ctx, h knot.ResponseHead) { l.fn(h) }
