package engine

import "github.com/capriccio-go/capriccio/internal/coro"

// loopStats is what a loop measures of itself. Loop-private.
type loopStats struct {
	stepCost  int64 // cycles, moving average over turns
	lastCost  int64 // cycles of a step in the last turn
	turnLimit int64 // cycles of turnTime
}

// noteTurn records how many steps a turn ran, in how many cycles. A turn whose steps took longer than those
// of the one before does not count until the next has, too: most likely other threads had the processor.
func (s *loopStats) noteTurn(steps int, cycles uint64) {
	if steps > 0 {
		cost := int64(cycles) / int64(steps)
		s.stepCost += (min(cost, s.lastCost) - s.stepCost) / 4
		s.lastCost = cost
	}
}

// nextBudget is how many steps may run before the loop's own goroutine looks for
// events again: as many as should take turnTime.
func (l *Loop) nextBudget() int {
	s := &l.stats
	if s.turnLimit == 0 {
		s.turnLimit = int64(coro.CyclesPerSecond() * turnTime.Seconds())
	}
	if s.stepCost <= 0 {
		return maxBudget
	}
	return int(min(max(s.turnLimit/s.stepCost, 1), maxBudget))
}
