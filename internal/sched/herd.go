package sched

// A herd says how many tasks of a node run one after another, once one of them was woken for nothing: one at first, as
// it may leave nothing to do for the next, and twice as many after each herdTrials cohorts in which all had something
// to do, up to cohortSize. The zero value is a node without such a limit.
type herd struct {
	limit uint8 // tasks; 0: none
	good  uint8 // cohorts since limit was last changed
}

// begin returns how many of the ready tasks are to be a cohort.
func (h *herd) begin(ready int) int {
	if h.limit == 0 {
		return ready
	}
	if h.good++; h.good > herdTrials {
		h.good = 1
		if h.limit *= 2; h.limit >= cohortSize {
			h.limit = 0
			return ready
		}
	}
	return min(ready, int(h.limit))
}

// inVain notes that a task was woken for nothing.
func (h *herd) inVain() { h.limit, h.good = 1, 0 }
