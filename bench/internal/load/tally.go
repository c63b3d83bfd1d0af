package load

import "time"

// Tally counts what became of the requests of a class that were due in a time. It is what
// client processes print, as JSON.
type Tally struct {
	Due      int // in the time; Again not counted
	Again    int // attempts after the first
	Served   int // 200
	InTime   int // … within the target
	Refused  int // 503 or 429
	Failed   int // any other status, a broken connection, none to be had
	TimedOut int // the client's patience ended
	Pending  int // neither answered nor given up when the run ended
	P50, P99 time.Duration
	Loaded   time.Duration // P99 of those served before the end of the time
	Late     time.Duration // 99th percentile of what the client itself was late
}

// Count looks at the outcomes of one class, or of all with class < 0, that were due from
// one time to another. Attempts after the first only count as Again.
func Count(all []Outcome, class int, from, to, target time.Duration) Tally {
	var t Tally
	var latencies, loaded, late []time.Duration
	for i := range all {
		o := &all[i]
		if class >= 0 && int(o.Class) != class || o.Scheduled < from || o.Scheduled >= to {
			continue
		}
		if o.Tries > 0 {
			t.Again++
			continue
		}
		t.Due++
		if o.Fate != Unsent {
			late = append(late, o.Sent-o.Scheduled)
		}
		switch o.Fate {
		case Served:
			t.Served++
			if o.Latency() <= target {
				t.InTime++
			}
			latencies = append(latencies, o.Latency())
			if o.Done < to {
				loaded = append(loaded, o.Latency())
			}
		case Refused:
			t.Refused++
		case Abandoned:
			t.TimedOut++
		case Pending:
			t.Pending++
		default:
			t.Failed++
		}
	}
	t.P50, t.P99, t.Late = Quantile(latencies, 0.50), Quantile(latencies, 0.99), Quantile(late, 0.99)
	t.Loaded = Quantile(loaded, 0.99)
	return t
}
