package admit

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A scripted Decider says always the same, and notes what it was shown last.
type scripted struct {
	verdict Verdict
	shown   QueueState
}

func (s *scripted) Next(_ time.Duration, _ int, q *QueueState) Verdict {
	s.shown = *q
	return s.verdict
}

// names pushes an entry for each name, a second apart, and returns them.
func names(q *EntryQueue[string], priority int8, client uint32, all ...string) (entries []*Entry[string]) {
	for i, name := range all {
		x := &Entry[string]{Item: name, Since: time.Duration(i+1) * time.Second, Client: client, Priority: priority}
		q.Push(x)
		entries = append(entries, x)
	}
	return entries
}

// drain takes out all that is decided now.
func drain(q *EntryQueue[string], m Moment, d Decider) (all []string) {
	for {
		x, _ := q.Next(m, d)
		if x == nil {
			return all
		}
		all = append(all, x.Item)
	}
}

func TestOrderOfAnEntryQueue(t *testing.T) {
	m := Moment{Now: 10 * time.Second}
	for name, c := range map[string]struct {
		verdict Verdict
		want    []string
	}{
		"oldest first": {Admit, []string{"important", "a", "elsewhere", "b", "c", "least"}},
		"newest first": {AdmitNewest, []string{"important", "c", "b", "elsewhere", "a", "least"}},
		"refused":      {Refuse, []string{"least", "a", "important", "elsewhere", "b", "c"}},
	} {
		var q EntryQueue[string]
		names(&q, 0, 0, "a", "b", "c")
		names(&q, MaxPriority, 0, "important")
		names(&q, MinPriority, 0, "least")
		q.Push(&Entry[string]{Item: "elsewhere", Since: 1500 * time.Millisecond, Elsewhere: true})
		testenv.Equal(t, q.Len(), 6, "wait")
		testenv.EqualSlices(t, drain(&q, m, &scripted{verdict: c.verdict}), c.want, name)
		testenv.Equal(t, q.Len(), 0, "wait at the end")
	}
}

func TestAnEntryLeavesAnyPlaceOfTheQueue(t *testing.T) {
	for i := range 3 {
		var q EntryQueue[string]
		all := names(&q, 0, 0, "a", "b", "c")
		if !q.Remove(all[i]) || q.Remove(all[i]) {
			t.Error("an entry can be removed once")
		}
		want := []string{"a", "b", "c"}
		want = append(want[:i:i], want[i+1:]...)
		testenv.EqualSlices(t, drain(&q, Moment{}, Open{}), want, "the others")
	}
}

// The newest of a client that had much less admitted go before the newest of one that had much.
func TestClientsHaveEqualShares(t *testing.T) {
	var q EntryQueue[string]
	d := &scripted{verdict: AdmitNewest}
	for range 100 {
		names(&q, 0, 1, "greedy")
		drain(&q, Moment{}, d)
	}
	names(&q, 0, 2, "modest", "modest too")
	names(&q, 0, 1, "greedy", "greedy too")
	testenv.EqualSlices(t, drain(&q, Moment{}, d), []string{"modest", "modest too", "greedy too", "greedy"}, "order")
}

// While the loop is busy, tasks that were admitted and have not finished count as starting, but not for long.
func TestWhatIsUnderWay(t *testing.T) {
	var q EntryQueue[string]
	d := &scripted{verdict: Admit}
	shown := func(m Moment) int {
		q.Arriving(m, d)
		return d.shown.Starting
	}
	for range 3 {
		q.Starts(time.Second, Admit)
		q.Started(true)
	}
	now := Moment{Now: time.Second}
	testenv.Equal(t, shown(now), 3, "are under way")
	q.Finished()
	testenv.Equal(t, shown(now), 2, "are under way when one has finished")
	testenv.Equal(t, shown(Moment{Now: time.Second + longestHold}), 0, "are under way after a while")
	testenv.Equal(t, shown(Moment{Now: time.Second, Idle: true}), 0, "are under way when the loop is idle")
	testenv.Equal(t, shown(now), 0, "are under way after that")
	q.Starts(time.Second, Refuse)
	if shown(now); d.shown.Refusing != 1 || q.UnderWay() != 1 {
		t.Errorf("%+v, %d under way; want one refusal", d.shown, q.UnderWay())
	}
	q.Started(false)
	testenv.Equal(t, q.UnderWay(), 0, "are under way at the end")
}

// When the Decider has said that enough are under way it is asked again after one of them was refused, or in the next
// iteration of the loop.
func TestEnough(t *testing.T) {
	var q EntryQueue[string]
	names(&q, 0, 0, "a")
	asked := func(now time.Duration) bool {
		d := &scripted{verdict: Enough}
		q.Next(Moment{Now: now}, d)
		return d.shown.Waiting > 0
	}
	q.Starts(0, Admit)
	for i, want := range []bool{true, false, false} {
		testenv.Equal(t, asked(20*time.Millisecond), want, "asked %d times before, again", i)
	}
	testenv.Equal(t, asked(21*time.Millisecond), true, "in the next iteration")
	q.Starts(21*time.Millisecond, Refuse)
	q.Started(false)
	testenv.Equal(t, asked(21*time.Millisecond), true, "after a refusal")
}

// A client that has closed its side of the connection is given up after a while.
func TestDisconnectedClients(t *testing.T) {
	var q EntryQueue[string]
	x := names(&q, 0, 0, "a", "b")
	x[0].Disconnected = true
	d := &scripted{verdict: Refuse}
	q.Next(Moment{Now: time.Second + disconnectedAfter}, &scripted{verdict: Defer})
	testenv.EqualSlices(t, drain(&q, Moment{Now: time.Second + disconnectedAfter, Full: true}, Open{}), nil, "refused at once")
	if x, v := q.Next(Moment{Now: time.Second + disconnectedAfter + 1}, d); x == nil || v != Refuse || !d.shown.Abandoned {
		t.Errorf("%v, %v, shown %+v; want a refusal of what is abandoned", x, v, d.shown)
	}
	q.Next(Moment{Now: 2 * time.Second}, d)
	testenv.Equal(t, d.shown.Disconnected, 1, "clients have left")
}
