package knot

import (
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/pace"
	"github.com/capriccio-go/capriccio/task"
)

// SetRate slows down the rest of the response: after free bytes of its body no more than
// bytesPerSecond leave in a second, in about eight pieces. 0 or less lifts the limit. It is for
// what Write, WriteString and Files send, not for Send, which takes its whole body at once. The
// task sleeps in between, without keeping other requests out.
func (x *Ctx) SetRate(bytesPerSecond, free int64) {
	x.pace = pace.Pace{Rate: max(bytesPerSecond, 0), Free: max(free, 0)}
}

// nextPaced waits until some of the next left bytes may leave, and returns how many. It may park.
func (x *Ctx) nextPaced(left int64) (int64, error) {
	if x.pace.Rate == 0 {
		return left, nil
	}
	n, wait := x.pace.Next(time.Now(), left)
	if wait > 0 {
		if err := x.flush(); err != nil {
			return 0, err
		}
		x.leaveWhileSending() // others may come in while it sleeps
		if err := task.Sleep(wait); err != nil {
			return 0, x.afterWrite(err) // the response is not complete, as after a write that has failed
		}
	}
	return n, nil
}

// leaveWhileSending tells admission that the request no longer counts as admitted, though its response is not complete.
func (x *Ctx) leaveWhileSending() {
	if e := x.adapted; e != nil {
		e.leaveWhileSending(x.c)
		return
	}
	x.c.leave()
}

// streamPaced is stream at the pace of the response.
func (x *Ctx) streamPaced(p []byte) error {
	for len(p) > 0 {
		n, err := x.nextPaced(int64(len(p)))
		if err != nil {
			return err
		}
		if err := x.stream(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}
