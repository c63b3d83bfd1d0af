package load

import (
	"time"
)

// Steps is a load that goes up and down: low for Lead, then Count times high and low.
type Steps struct {
	Lead, High, Low time.Duration
	Count           int
	Target          time.Duration // no level above it is called stable
	Usual           time.Duration // a latency up to this is normal
}

// StepTimes says how a server took the steps, all of them laid on top of one another.
type StepTimes struct {
	// Settle is how long the 99th percentile of latency moved after the load went up:
	// High if it did not come to rest, or not below the target.
	Settle time.Duration
	// Recover is how long it was above twice its value of before, after the load went
	// down: Low if it was so to the end.
	Recover     time.Duration
	Before, Top time.Duration // 99th percentiles during Lead and in the second half of High
	// Normal is the share of what was answered in High, without its first stepGrace, that took no longer than Usual.
	Normal float64
}

const (
	stepWindow  = 10 * time.Millisecond
	stepGrace   = 20 * time.Millisecond
	settleBand  = 1.5  // times the level that is reached in the end
	driftBand   = 1.25 // from the third quarter of High to the fourth, and …
	driftSlack  = 2 * time.Millisecond
	recoverBand = 2 // times the level before
	// A queue that empties shows in many windows; one or two are a hiccup.
	recoverRun = 3
)

// Times finds the times in what became of the requests.
func (s Steps) Times(outcomes []Outcome) StepTimes {
	high := make([][]time.Duration, int(s.High/stepWindow))
	low := make([][]time.Duration, int(s.Low/stepWindow))
	var lead []time.Duration
	usual, all := 0, 0
	for i := range outcomes {
		o := &outcomes[i]
		if o.Fate != Served {
			continue
		}
		at := o.Done - s.Lead
		switch {
		case at < -s.Lead/2:
		case at < 0:
			lead = append(lead, o.Latency())
		case at >= time.Duration(s.Count)*(s.High+s.Low):
		default:
			at %= s.High + s.Low
			if at < s.High {
				put(high, at, o.Latency())
				if at >= stepGrace {
					all++
					if o.Latency() <= s.Usual {
						usual++
					}
				}
			} else {
				put(low, at-s.High, o.Latency())
			}
		}
	}
	t := StepTimes{Before: Quantile(lead, 0.99), Normal: float64(usual) / float64(max(all, 1))}
	t.Settle, t.Top = s.settled(high)
	t.Recover = s.recovered(low, recoverBand*t.Before)
	return t
}

func put(windows [][]time.Duration, at, latency time.Duration) {
	if i := int(at / stepWindow); i < len(windows) {
		windows[i] = append(windows[i], latency)
	}
}

// p99 is the 99th percentile over some windows.
func p99(windows [][]time.Duration) time.Duration {
	var all []time.Duration
	for _, w := range windows {
		all = append(all, w...)
	}
	return Quantile(all, 0.99)
}

// settled looks for the last window of the first half that is above the level of the
// second half. A window without a served request is above any level.
func (s Steps) settled(windows [][]time.Duration) (after, level time.Duration) {
	n := len(windows)
	level = p99(windows[n/2:])
	third, fourth := p99(windows[n/2:n*3/4]), p99(windows[n*3/4:])
	drifts := float64(fourth) > driftBand*float64(third)+float64(driftSlack)
	if third == 0 || fourth == 0 || level > s.Target || drifts {
		return s.High, level
	}
	for i, w := range windows[:n/2] {
		if len(w) == 0 || float64(Quantile(w, 0.99)) > settleBand*float64(level) {
			after = time.Duration(i+1) * stepWindow
		}
	}
	return after, level
}

// recovered looks for the last time at which several windows in turn were above a limit.
func (s Steps) recovered(windows [][]time.Duration, limit time.Duration) time.Duration {
	run, after := 0, time.Duration(0)
	for i, w := range windows {
		if Quantile(w, 0.99) <= limit {
			run = 0
			continue
		}
		if run++; run >= recoverRun {
			after = time.Duration(i+1) * stepWindow
		}
	}
	return after
}
