package engine

import "github.com/capriccio-go/capriccio/internal/coro"

// loopStats is what a loop measures of itself. Loop-private.
type loopStats struct {
	stepCost  int64 // cycles, moving average over turns
	turnLimit int64 // cycles of turnTime
}

// noteTurn records how many steps a turn ran, in how many cycles. A turn that took far longer than
// it should counts as less: most likely other threads had the processor.
func (s *loopStats) noteTurn(steps int, cycles uint64) {
	if steps > 0 {
		s.stepCost += (min(int64(cycles), 2*s.turnLimit)/int64(steps) - s.stepCost) / 4
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
