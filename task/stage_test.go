package task

import (
	"fmt"
	"strings"
	"testing"
)

func TestStageLetsOneInAtATime(t *testing.T) {
	s, err := NewStage(fmt.Sprintf("%s %d", t.Name(), len(StageNames())))
	if err != nil {
		t.Fatal(err)
	}
	for _, loops := range []int{1, 2, 8} {
		rt := newRuntime(t, loops)
		inside, most, done := 0, 0, 0
		everyone(t, rt, 40, func(i int) {
			for range 5 {
				s.Do(func() { // unsynchronised otherwise: the race detector is the judge
					inside++
					most = max(most, inside)
					if i%7 == 0 {
						Yield()
					}
					inside--
					done++
				})
			}
		})
		rt.Close()
		if most != 1 || done != 200 {
			t.Errorf("%d loops: %d at a time, %d in all; want 1 and 200", loops, most, done)
		}
	}
}

func TestStagesHaveNamesOfTheirOwn(t *testing.T) {
	if _, err := NewStage(""); err == nil {
		t.Error("a stage without name")
	}
	name := fmt.Sprintf("%s %d", t.Name(), len(StageNames()))
	if _, err := NewStage(name); err != nil {
		t.Fatal(err)
	}
	if _, err := NewStage(name); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("the same name again: %v", err)
	}
	defer func(all []*Stage) { stages.all = all }(stages.all)
	for i := len(StageNames()); i < MaxStages; i++ {
		if _, err := NewStage(fmt.Sprint("filling up ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := NewStage("one too many"); err == nil || !strings.Contains(err.Error(), "64") {
		t.Errorf("one too many: %v", err)
	}
}

func TestPartition(t *testing.T) {
	for _, loops := range []int{1, 2, 3, 7, 64} {
		count := make([]int, loops)
		for key := range uint64(10_000) {
			p := Partition(key, loops)
			if p != Partition(key, loops) {
				t.Fatal("not the same twice")
			}
			count[p]++
		}
		for loop, n := range count {
			if want := 10_000 / loops; n < want*7/10 || n > want*13/10 {
				t.Errorf("loop %d of %d has %d keys, want about %d", loop, loops, n, want)
			}
		}
	}
	if Partition(5, 0) != 0 {
		t.Error("without loops")
	}
}

func TestGoForRunsOnTheLoopOfTheKey(t *testing.T) {
	rt := newRuntime(t, 3)
	defer rt.Close()
	for key := range uint64(50) {
		loop := -1
		if err := rt.Go(func() {
			GoFor(key, func() { loop = CurrentLoop().Index() }).Join()
		}).Join(); err != nil {
			t.Fatal(err)
		}
		if loop != Partition(key, 3) {
			t.Errorf("key %d ran on loop %d, want %d", key, loop, Partition(key, 3))
		}
	}
}

func TestWithPriorityLastsAsLongAsItsFunction(t *testing.T) {
	rt := newRuntime(t, 1)
	defer rt.Close()
	if err := rt.Go(func() {
		SetPriority(3)
		got := func() int { return int(Current().extra().priority) }
		WithPriority(100, func() {
			if got() != 31 {
				t.Errorf("%d within, want 31, the highest", got())
			}
		})
		func() {
			defer func() { _ = recover() }()
			WithPriority(-5, func() { panic("gone") })
		}()
		if got() != 3 {
			t.Errorf("%d after, want 3", got())
		}
	}).Join(); err != nil {
		t.Fatal(err)
	}
}
