package simfleet

import (
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// databaseCalls are the requests of a server that wait for the database: a node of the blocking graph. With Admission it is
// watched as internal/feed and internal/engine do: while requests pile up, an admit.Backlog counts them, and Admission.Limit
// says how many may be there; the others wait in an EntryQueue before they get the processor.
type databaseCalls struct {
	s       *server
	all     []*attempt
	backlog *admit.Backlog // nil: not watched
	queue   admit.EntryQueue[*attempt]
	seen    int  // calls at the last look, while not watched
	grew    int  // looks in a row at which there were more
	looking bool // a look is posted
}

const (
	watched    = 16                     // calls from which on it is looked at whether they pile up
	feedEvery  = 100 * time.Millisecond // looks of internal/feed
	lookEvery  = 10 * time.Millisecond  // looks at a watched node
	queryRoute = 1                      // kind of work: all requests have one route
)

func (c *databaseCalls) init(s *server) {
	*c = databaseCalls{s: s, looking: c.looking}
	c.queue.Index = admit.MaxEntrances
}

// stop ends all, as the process ends.
func (c *databaseCalls) stop() {
	for _, a := range c.all {
		a.calling = false
		c.s.answer(a, false)
	}
	for x := c.queue.Pop(); x != nil; x = c.queue.Pop() {
		c.s.answer(x.Item, false)
	}
	c.all = nil
}

// enters reports whether a, which was admitted to the server, may run; otherwise it waits in the queue, or is refused.
func (c *databaseCalls) enters(a *attempt) bool {
	if c.backlog == nil {
		return true
	}
	a.heads = admit.Work{Kind: queryRoute, Detail: queryRoute}
	if !c.backlog.Limits(&a.heads) {
		c.backlog.Admitted(&a.heads)
		return true
	}
	if c.queue.Len() == 0 && c.backlog.HasRoom() {
		state := admit.QueueState{Waiting: 1, Inside: c.backlog.Inside()}
		if c.s.admission.Next(c.s.f.now, c.queue.Index, &state) != admit.Refuse {
			c.backlog.Heads(&a.heads)
			return true
		}
	}
	a.entry.Since = c.s.f.now
	c.queue.Push(&a.entry)
	return false
}

// serveQueue lets attempts of the queue run or refuses them.
func (c *databaseCalls) serveQueue() {
	refusing := 0
	for c.s.busy == nil && c.queue.Len() > 0 {
		m := admit.Moment{Now: c.s.f.now, Idle: true, Full: !c.backlog.HasRoom(), Inside: c.backlog.Inside()}
		x, v := c.queue.Next(m, c.s.admission)
		if x == nil {
			break
		}
		c.queue.Starts(c.s.f.now, v)
		if v == admit.Refuse {
			refusing++
			c.s.debt += refusal
			c.s.left(x.Item)
			c.s.refuse(x.Item)
			continue
		}
		c.queue.Started(true)
		c.backlog.Heads(&x.Item.heads)
		c.s.begin(x.Item)
	}
	for range refusing {
		c.queue.Started(false)
	}
}

// comesNowhere records that a will not call the database any more.
func (c *databaseCalls) comesNowhere(a *attempt) {
	if c.backlog != nil {
		c.backlog.TurnedAway(&a.heads)
	}
}

// call asks the database for a.
func (c *databaseCalls) call(a *attempt) {
	if c.s.late(a) {
		c.s.left(a)
		c.s.refuse(a)
		return
	}
	f := c.s.f
	a.calling, a.asked, a.place = true, f.now, len(c.all)
	c.all = append(c.all, a)
	if c.backlog != nil {
		c.backlog.Arrived(&a.heads)
	}
	f.post(event{when: f.now + network, kind: queryReaches, at: a})
	f.post(event{when: f.now + patience, kind: queryTimesOut, at: a})
	if c.s.admission != nil && len(c.all) >= watched {
		c.postLook(feedEvery)
	}
}

// ends records that the wait of a is over, and reports whether it was still waiting.
func (c *databaseCalls) ends(a *attempt) bool {
	if !a.calling {
		return false
	}
	a.calling = false
	last := len(c.all) - 1
	c.all[a.place] = c.all[last]
	c.all[a.place].place = a.place
	c.all[last] = nil
	c.all = c.all[:last]
	if c.backlog != nil {
		c.backlog.Departed(c.s.f.now, &a.heads, admit.Stamp(a.asked))
	}
	c.s.left(a)
	return true
}

// answered is called when the database has answered.
func (c *databaseCalls) answered(a *attempt) {
	if c.ends(a) {
		c.s.f.store.fill(a.key)
		c.s.answer(a, true)
		c.s.turn()
	}
}

// timesOut is called when the database takes too long for the server: what it answers later is not put into the cache.
func (c *databaseCalls) timesOut(a *attempt) {
	if a.asked+patience == c.s.f.now && c.ends(a) {
		c.s.answer(a, false)
		c.s.turn()
	}
}

// leaves is called when the user of a has gone, and that is known here.
func (c *databaseCalls) leaves(a *attempt) {
	if c.ends(a) {
		c.s.turn()
	}
}

func (c *databaseCalls) postLook(after time.Duration) {
	if !c.looking {
		c.looking = true
		c.s.f.post(event{when: c.s.f.now + after, kind: looks, who: c.s.index})
	}
}

// look asks how many calls there may be; or whether it is time to watch them.
func (c *databaseCalls) look() {
	c.looking = false
	now := c.s.f.now
	if c.backlog == nil {
		if len(c.all) < watched {
			c.seen, c.grew = 0, 0
			return
		}
		if len(c.all) > c.seen && c.seen > 0 {
			c.grew++
		} else {
			c.grew = 0
		}
		c.seen = len(c.all)
		if c.grew < 2 {
			c.postLook(feedEvery)
			return
		}
		c.backlog = admit.NewBacklog(0, now, true)
		for _, a := range c.all {
			a.heads = admit.Work{}
			a.asked = max(a.asked, now-patience)
			c.backlog.Add(&a.heads)
		}
	}
	out := c.queue.Len()
	c.backlog.SetLimit(now, c.s.admission.Limit(now, 0, c.backlog.Look(out)), out)
	if c.backlog.Quiet(now) && out == 0 {
		c.backlog, c.seen, c.grew = nil, 0, 0
		return
	}
	c.s.turn()
	c.postLook(lookEvery)
}
