package simfleet

import (
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// A server has one processor, which serves attempts one after another.
//
//	reached ─▶ entry queue ─▶ processor ─▶ hit ─────────────────────────────▶ answer
//	              │ refused  │         ╰──▶ miss ─▶ call of the database ─────▶ answer
//	              ▼          ╰─▶ queue of the calls, while these are limited ─▶ processor
//	            answer
type server struct {
	f     *Fleet
	index int
	down  bool
	speed float64 // 1
	busy  *attempt
	ends  uint64        // number of the event that ends that
	debt  time.Duration // processor time of refusals, which the next attempt pays
	mean  float64       // of the processor time of attempts, a moving average, in nanoseconds

	queue      fifo[*attempt]             // without Admission
	entry      admit.EntryQueue[*attempt] // with it
	admission  *admit.Admission
	turnPosted bool
	calls      databaseCalls
}

const entrance = 1 // index

func (s *server) init(f *Fleet, index int) {
	s.f, s.index, s.speed = f, index, 1
	s.start()
}

// start makes the state of a process that has just begun.
func (s *server) start() {
	s.down, s.debt, s.mean = false, 0, 0
	s.queue, s.entry = fifo[*attempt]{}, admit.EntryQueue[*attempt]{Index: entrance}
	if s.f.Parts.Admission {
		limit := admit.NewLedger().NewLimit("requests")
		s.admission = admit.NewAdmission(0, true, func(int) *admit.ConcurrencyLimit { return limit })
	}
	s.calls.init(s)
}

// stop ends the process: connections break.
func (s *server) stop() {
	s.down = true
	s.calls.stop()
	for s.queue.len() > 0 {
		s.answer(s.queue.pop(), false)
	}
	for x := s.entry.Pop(); x != nil; x = s.entry.Pop() {
		s.answer(x.Item, false)
	}
	if s.busy != nil {
		s.answer(s.busy, false)
		s.busy = nil
	}
}

func (s *server) answer(a *attempt, ok bool) {
	a.ok = ok
	s.f.post(event{when: s.f.now + network, kind: answered, at: a})
}

func (s *server) refuse(a *attempt) {
	s.f.series.count(s.f.now, refused)
	a.refused = true
	s.answer(a, false)
}

// reached is called when a has come.
func (s *server) reached(a *attempt) {
	switch {
	case s.down:
		s.answer(a, false)
		return
	case s.admission == nil:
		if s.queue.len() >= fifoRoom {
			s.refuse(a)
			return
		}
		s.queue.push(a)
	default:
		if a.over { // its connection has been closed meanwhile
			return
		}
		a.entry.Since, a.entry.Disconnected = s.f.now, false
		s.entry.Push(&a.entry)
	}
	s.turn()
}

// hangup is called when the user of a has gone. A server without Admission does not notice.
func (s *server) hangup(a *attempt) {
	if s.admission != nil {
		a.entry.Disconnected = true
	}
	if s.f.Parts.Deadlines {
		s.calls.leaves(a)
	}
}

// turn is an iteration of the loop: it serves what comes next, if the processor is free.
func (s *server) turn() {
	if s.busy != nil || s.down {
		return
	}
	if s.admission == nil {
		for s.busy == nil && s.queue.len() > 0 {
			s.begin(s.queue.pop())
		}
		return
	}
	s.calls.serveQueue()
	refusing := 0
	for s.busy == nil && s.entry.Len() > 0 {
		x, v := s.entry.Next(admit.Moment{Now: s.f.now, Idle: true}, s.admission)
		if x == nil {
			break
		}
		s.entry.Starts(s.f.now, v)
		if v == admit.Refuse {
			refusing++
			s.debt += refusal
			s.refuse(x.Item)
			continue
		}
		s.entry.Started(true)
		if s.calls.enters(x.Item) {
			s.begin(x.Item)
		}
	}
	for range refusing {
		s.entry.Started(false)
	}
	if s.busy == nil && s.entry.Len() > 0 && !s.turnPosted {
		s.turnPosted = true
		s.f.post(event{when: s.f.now + max(s.debt, time.Millisecond), kind: turns, who: s.index})
		s.debt = 0
	}
}

// late reports whether a would be served too late, as far as is known.
func (s *server) late(a *attempt) bool {
	return s.f.Parts.Deadlines && s.f.now+time.Duration(s.mean) > a.sent+patience
}

// begin gives a the processor.
func (s *server) begin(a *attempt) {
	if s.late(a) {
		s.debt += refusal
		s.left(a)
		s.refuse(a)
		return
	}
	s.busy = a
	takes := time.Duration(float64(a.work) / s.speed)
	s.mean += (float64(takes) - s.mean) / 64
	s.f.post(event{when: s.f.now + s.debt + takes, kind: served, who: s.index, at: a})
	s.debt, s.ends = 0, s.f.number
}

// left records that a is not inside any more.
func (s *server) left(a *attempt) {
	if s.admission == nil {
		return
	}
	s.calls.comesNowhere(a)
	s.entry.Finished()
	s.admission.Left(s.f.now, entrance)
}

// served is called by the event with that number when the processor has finished a.
func (s *server) served(a *attempt, number uint64) {
	if s.busy == nil || s.ends != number { // the process has ended meanwhile
		return
	}
	s.busy = nil
	if s.f.store.hit(a.key) {
		s.left(a)
		s.answer(a, true)
	} else {
		s.calls.call(a)
	}
	s.turn()
}
