package bgraph

import (
	"cmp"
	"fmt"
	"slices"
)

// A Crossing counts the wakes of tasks at a node, or the starts of tasks, that came from outside of
// their loop: from tasks of another loop, from the poller and timers of that loop, or from plain
// goroutines. Wakes within a loop are not counted.
type Crossing struct {
	From     Key    `json:"from"`      // where the waker's task had waited last; 0: no task, but a poller, a timer, a goroutine, or a task that had ended
	To       Key    `json:"to"`        // where the woken task waited; KeyStart: it began
	FromLoop int    `json:"from_loop"` // -1: a goroutine that is not on a loop
	ToLoop   int    `json:"to_loop"`   // number of the loop of the woken task, from 0
	Count    uint64 `json:"count"`     // wakes
}

// crossingID is what tells a Crossing from others.
func crossingID(c *Crossing) [4]uint64 {
	return [4]uint64{uint64(c.From), uint64(c.To), uint64(c.FromLoop + 1), uint64(c.ToLoop)}
}

// compareCrossings is the order of Snapshot.Crossings.
func compareCrossings(c, b Crossing) int {
	return cmp.Or(cmp.Compare(c.From, b.From), cmp.Compare(c.To, b.To), cmp.Compare(c.FromLoop, b.FromLoop), cmp.Compare(c.ToLoop, b.ToLoop))
}

func (s *Snapshot) checkCrossings() error {
	count := total{what: "counts of crossings"}
	for i := range s.Crossings {
		c := &s.Crossings[i]
		err := cmp.Or(s.checkLoop(c.ToLoop), checkCount("count", c.Count), count.add(float64(c.Count)))
		if c.FromLoop != -1 {
			err = cmp.Or(err, s.checkLoop(c.FromLoop))
		}
		for _, k := range [...]Key{c.From, c.To} {
			if s.Node(k) == nil && (k != 0 || k == c.To) {
				err = cmp.Or(err, fmt.Errorf("there is no node %v", k))
			}
		}
		if i > 0 && compareCrossings(s.Crossings[i-1], *c) >= 0 {
			err = cmp.Or(err, fmt.Errorf("%v to %v comes after %v to %v; want ascending order", c.From, c.To, s.Crossings[i-1].From, s.Crossings[i-1].To))
		}
		if err != nil {
			return fmt.Errorf("crossings[%d]: %w", i, err)
		}
	}
	return nil
}

// dropCrossings leaves out crossings of nodes that are not in s.
func (s *Snapshot) dropCrossings() {
	s.Crossings = slices.DeleteFunc(slices.Clone(s.Crossings), func(c Crossing) bool {
		return c.From != 0 && s.Node(c.From) == nil || s.Node(c.To) == nil
	})
}
