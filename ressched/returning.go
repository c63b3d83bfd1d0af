package ressched

import "time"

// Clients that wait for the answer to one request before they make the next can't make a
// line longer than they are many. Refusing them is of no use if they ask again at once: the line is
// as long as before, and a part of the time goes into refusals. Independent clients
// look the same for a moment, but they become more and more while they wait, as each
// request that comes meanwhile brings a connection of its own.
//
// So an entrance that is overloaded, and knows how many clients it has (SetClients), and that
// nearly all of them are in line (or that its tasks are short), stops refusing after a while, to see what happens. If there come
// no more of them in twice the time in which all can be served, they return, and are left in
// line; else the trial ends with the first that is too many, and the next is made after
// twice the time.

const (
	firstTrial = 500 * time.Millisecond // of overload
	lastTrial  = time.Minute
	proofTime  = 50 * time.Millisecond // besides twice the time to serve all
	inLine     = 0.85                  // share of the clients

	// A task this short costs hardly more than its refusal.
	shortTask = 40 * time.Microsecond
	// What returning clients can bear where tasks are short, in parts of the budget.
	patientBudgets = 10
)

// A crowd is what an entrance knows of its clients. Loop-private.
type crowd struct {
	clients  int // of this loop; 0: unknown
	room     int // more than so many are too many
	tolerant bool
	since    time.Duration // when tolerant began, or was last proved right
	proved   bool          // they return
	trial    time.Duration // when the next may begin
	first    time.Duration // to the first trial, and the shortest pause
	pause    time.Duration // between two trials
	inLine   float64       // share of the clients that must be in line for one
}

// allow is how many clients there may be in the end if there are n in the beginning.
func allow(n int) int { return n + n/16 + 2 }

// overloaded is called when an overload begins.
func (c *crowd) overloaded(now time.Duration, short bool) {
	c.tolerant = false
	if c.proved {
		c.begin(now)
		return
	}
	c.inLine, c.first = inLine, firstTrial
	if short { // then little is lost if they do not return
		c.inLine, c.first = 0, firstTrial/5
	}
	c.pause = max(c.pause, c.first)
	c.trial = max(c.trial, now+c.first)
}

func (c *crowd) begin(now time.Duration) {
	c.tolerant, c.since, c.room = true, now, allow(c.clients)
}

// tolerates says whether nobody is to be refused although there is overload. line is how
// many are in line, all how long it takes to serve all clients, bearable how long they can
// wait.
func (c *crowd) tolerates(now time.Duration, line float64, all, bearable time.Duration) bool {
	switch {
	case c.clients == 0 || all > bearable:
		c.tolerant = false
		return false
	case !c.tolerant && (now < c.trial || line < c.inLine*float64(c.clients)):
		return false
	case !c.tolerant:
		c.begin(now)
	}
	if c.clients > c.room {
		c.tolerant, c.proved = false, false
		c.pause = min(2*c.pause, lastTrial)
		c.trial = now + c.pause
		return false
	}
	if now-c.since > 2*all+proofTime {
		c.proved, c.pause = true, c.first
		c.begin(now)
	}
	return true
}

// SetClients says how many clients have come to n on this loop and have not gone: each of
// them waits for the answer to its request before it makes the next. 0: nobody knows.
func (a *Admission) SetClients(n Node, clients int) {
	if a.Gate(n) != nil {
		a.entrances[n].crowd.clients = max(clients, 0)
	}
}

// Clients is what SetClients has said of n.
func (a *Admission) Clients(n Node) int {
	if a.Gate(n) == nil {
		return 0
	}
	return a.entrances[n].crowd.clients
}
