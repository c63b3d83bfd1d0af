package admit

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A ResponseKnee finds the number of open descriptors from which on the time of an answer grows with them (Capriccio,
// section 4.2: the knee of the response time). That time is the tasks at the entrances and inside, divided by
// those admitted per second (Little's law), so nothing is measured at a request. It is shown and limits nothing: that
// more clients wait longer is no reason to turn any away.
//
// Means of a second are put into bins by the descriptors that were open, four to a doubling. To the bins are fitted a
// constant up to the knee and a straight line beyond it, which meet there. The zero value is empty. Not safe for use
// by several goroutines at once.
type ResponseKnee struct {
	bins map[int]*responseBin

	// Of the present second:
	began       time.Duration // 0: not yet
	at          time.Duration // of the last Observe
	let         uint64        // tasks that had been admitted when it began
	tasks       float64       // seconds, of all
	open        float64       // seconds, of all
	least, most float64       // descriptors
}

// A responseBin is the mean of some seconds with about as many descriptors.
type responseBin struct {
	open, took float64 // descriptors, seconds; geometric means, which forget what was far off
	n          int     // seconds that have been added
	last       time.Duration
}

// A ResponseKneeReport is where answers begin to take longer.
type ResponseKneeReport struct {
	Open   float64       // descriptors at the knee
	Took   time.Duration // an answer, with fewer than that
	Most   float64       // the most descriptors that were seen
	Slowed time.Duration // an answer, with these
}

// Observe takes how many descriptors and how many tasks at the entrances and inside there are now, and how many tasks
// have been admitted so far.
func (b *ResponseKnee) Observe(now time.Duration, open, tasks float64, let uint64) {
	if b.began != 0 {
		dt := (now - b.at).Seconds()
		b.tasks += tasks * dt
		b.open += open * dt
		b.least, b.most = min(b.least, open), max(b.most, open)
		if b.at = now; now-b.began < responseWindow {
			return
		}
		b.add(now, float64(let-b.let))
	}
	b.began, b.at, b.let, b.tasks, b.open, b.least, b.most = max(now, 1), now, let, 0, 0, open, open
}

// add ends a second with that number of answers.
func (b *ResponseKnee) add(now time.Duration, answers float64) {
	open := b.open / (now - b.began).Seconds()
	if answers < responseAnswers || open < 1 || b.tasks <= 0 || b.most > responseSteady*b.least {
		return
	}
	if b.bins == nil {
		b.bins = map[int]*responseBin{}
	}
	i := int(math.Round(4 * math.Log2(open)))
	x := b.bins[i]
	took := b.tasks / answers
	if x == nil || now-x.last > responseForget {
		x = &responseBin{open: open, took: took}
		b.bins[i] = x
	}
	x.n++
	x.last = now
	part := 1 / float64(min(x.n, responseMemory))
	x.open *= math.Pow(open/x.open, part)
	x.took *= math.Pow(took/x.took, part)
}

// Report is the knee, if there is one: up to it, and beyond it, there have to be two bins, the time of
// an answer must have become three times as long, and a straight line through all bins must fit much worse.
func (b *ResponseKnee) Report() (r ResponseKneeReport, ok bool) {
	var all []*responseBin
	for _, x := range b.bins {
		if x.n >= responseLeast && b.at-x.last <= responseForget {
			all = append(all, x)
		}
	}
	if len(all) < 4 {
		return r, false
	}
	slices.SortFunc(all, func(x, y *responseBin) int { return cmp.Compare(x.open, y.open) })
	last := all[len(all)-1]
	_, _, straight := fitKnee(all, 0)
	best := math.Inf(1)
	for i := 1; i < len(all)-2; i++ {
		knee := all[i].open
		level, slope, squares := fitKnee(all, knee)
		after := level + slope*(last.open-knee)
		if squares >= best || level <= 0 || after < responseLeast*level || knee < responseLevel*all[0].open {
			continue
		}
		best = squares
		r = ResponseKneeReport{Open: knee, Took: seconds(level), Most: last.open, Slowed: seconds(after)}
	}
	return r, best <= responseBetter*straight && best <= responseError*responseError*float64(len(all))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// fitKnee fits level + slope*(open-knee) to the bins beyond knee, and level to the others, so that the squares of the
// relative errors are least.
func fitKnee(bins []*responseBin, knee float64) (level, slope, squares float64) {
	var w, wx, wxx, wy, wxy float64
	for _, b := range bins {
		x, weight := max(b.open-knee, 0), 1/(b.took*b.took)
		w += weight
		wx += weight * x
		wxx += weight * x * x
		wy += weight * b.took
		wxy += weight * x * b.took
	}
	if d := w*wxx - wx*wx; d > 0 {
		slope = (w*wxy - wx*wy) / d
	}
	level = (wy - slope*wx) / w
	for _, b := range bins {
		e := (level+slope*max(b.open-knee, 0))/b.took - 1
		squares += e * e
	}
	return level, slope, squares
}
