//go:build linux

package recorder

import (
	"math/bits"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// A Loop is what a Graph is told of a loop that it observes. Fixed.
type Loop struct {
	Runtime *Runtime
	Index   int            // in its runtime
	Account *admit.Account // read between two steps
	// State says how many tasks the loop has, and whether it takes new work. It may be called from any goroutine, and must
	// not wait.
	State func() (tasks int, works bool)
}

// A Runtime is what a Graph knows of a runtime whose loops it observes. Fixed.
type Runtime struct {
	Books  *admit.Books               // of the loops
	Counts func(*admit.Resource) bool // reports whether a resource matters to the runtime; for any goroutine
	Tasks  *admit.Resource            // that counts the tasks
}

// settle records what the step along e has changed about resources.
func (s *Shard) settle(e *edge) {
	s.moves = s.loop.Account.Moves
	tasksLimited := s.loop.Runtime.Tasks.LimitSet().Load() != 0
	learnt := tasksLimited && s.tasksLimited // not what was spawned before there was a limit
	s.tasksLimited = tasksLimited
	// Tasks are counted without a move as long as there is no limit.
	tasks := s.loop.Runtime.Tasks.Index()
	for moved := s.loop.Account.Moved | 1<<tasks; moved != 0; moved &= moved - 1 {
		i := bits.TrailingZeros32(moved)
		d := s.loop.Account.Balance(i) - s.balance[i]
		if d == 0 {
			continue
		}
		s.balance[i] += d
		if i == tasks && !learnt {
			continue
		}
		p := &e.changes[i/8]
		block := p.Load()
		if block == nil {
			block = new(changeBlock)
			p.Store(block)
		}
		c := &block[i%8]
		c.sum += d
		c.recent.fade(c.at, e.count-1)
		c.recent.add(float64(d), e.count)
		c.at = e.count
	}
	s.loop.Account.Moved = 0
}

// rebalance leaves out what the loop's own goroutine has taken or given.
func (s *Shard) rebalance() {
	s.moves, s.loop.Account.Moved = s.loop.Account.Moves, 0
	for i := range s.balance {
		s.balance[i] = s.loop.Account.Balance(i)
	}
}
