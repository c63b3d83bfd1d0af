package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// One that gives up is started and refused, at any place in the line, and so is one whose client
// has gone for some time.
func TestTickets(t *testing.T) {
	e := entrance(t, "test")
	r := &room{}
	rt, _ := withRoom(t, r)
	refused := []int(nil)
	err := rt.Go(func() {
		l := CurrentLoop()
		var wg WaitGroup
		const n = 5
		wg.Add(n)
		tickets := make([]Ticket, n)
		for i := range n {
			l.StartAt(e, 0, 0, &tickets[i], func() {
				if err := e.Enter(); errors.Is(err, ErrRefused) {
					refused = append(refused, i)
				} else {
					e.Leave()
				}
				wg.Done()
			})
		}
		tickets[2].GiveUp()
		tickets[2].GiveUp() // it stands for nothing any more
		tickets[0].Hangup()
		Sleep(10 * time.Millisecond)
		testenv.EqualSlices(t, refused, []int{2}, "were refused")
		Sleep(time.Second) // longer than a client that has hung up may still want its answer
		testenv.EqualSlices(t, refused, []int{2, 0}, "were refused")
		r.size = n
		wg.Wait()
	}).Join()
	if err != nil || len(refused) != 2 {
		t.Errorf("%v were refused, error %v", refused, err)
	}
	testenv.Equal(t, r.inside, 0, "are inside")
}
