package task

import (
	"fmt"
	"math/bits"
	"sync"
)

// A Stage is an operation that tasks come to one after another, and that shares what it works
// on: an index, a log (Cohort Scheduling, section 3). Made by NewStage, once per program.
//
// It is exclusive: at most one task of the program is in it at a time, whatever the number
// of loops. With the schedulers cohort and resource, tasks that have come to it are run one
// after another on one loop, as many at a time as there are up to the size of a cohort,
// while other loops do other work: so its lock is free when they take it, and what it works on is
// in the cache of one processor. With fifo it is a lock.
type Stage struct {
	name string
	mu   Mutex
}

// MaxStages is how many stages a process may have.
const MaxStages = 64

var stages struct {
	mu  sync.Mutex
	all []*Stage // guarded by mu
}

// NewStage makes a stage. The name is that of its node in the blocking graph, and must be
// its own. The error says what is wrong.
func NewStage(name string) (*Stage, error) {
	stages.mu.Lock()
	defer stages.mu.Unlock()
	if name == "" {
		return nil, fmt.Errorf("task: a stage without name")
	}
	for _, s := range stages.all {
		if s.name == name {
			return nil, fmt.Errorf("task: there is a stage %q already", name)
		}
	}
	if len(stages.all) == MaxStages {
		return nil, fmt.Errorf("task: stage %q is one too many; there may be %d", name, MaxStages)
	}
	s := &Stage{name: name}
	stages.all = append(stages.all, s)
	return s, nil
}

// StageNames returns the names of all stages. For schedulers.
func StageNames() []string {
	stages.mu.Lock()
	defer stages.mu.Unlock()
	names := make([]string, len(stages.all))
	for i, s := range stages.all {
		names[i] = s.name
	}
	return names
}

// Do runs fn in the stage: on the calling task, when it is its turn. It parks until then. If
// fn itself parks, nobody else gets in until it has returned. A plain goroutine waits for the
// lock only.
func (s *Stage) Do(fn func()) {
	At(s.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	Outside(callPlain, fn)
}

// Partition returns which of so many loops the tasks with the given key belong to. It
// spreads any set of keys evenly, also consecutive ones. What belongs to a key is then
// only ever touched by one loop and needs no lock (Cohort Scheduling, sections 3.4 and
// 4.1.4); see GoFor.
func Partition(key uint64, loops int) int {
	key ^= key >> 32
	key *= 0xd6e8feb86659fd93
	key ^= key >> 32
	key *= 0xd6e8feb86659fd93
	key ^= key >> 32
	hi, _ := bits.Mul64(key, uint64(max(loops, 1)))
	return int(hi)
}

// GoFor is Go on the loop that key belongs to: the calling task's runtime has one for each
// key, the same every time. It panics if there is no runtime.
func GoFor(key uint64, fn func()) *Task {
	var rt *Runtime
	if l := comeBack(); l != nil {
		rt = l.rt
	} else if rt = Default(); rt == nil {
		panic("task: GoFor without a runtime")
	}
	return GoOn(rt.Loop(Partition(key, rt.Loops())), fn)
}
