package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// point is one thing to measure on every system: a metric at a parameter. Its
// work is what each operation has to do besides, in nanoseconds.
type point struct {
	metric string
	x      float64
	work   int
}

func pointsAt(metric string, xs ...float64) []point {
	points := make([]point, 0, len(xs))
	for _, x := range xs {
		points = append(points, point{metric: metric, x: x})
	}
	return points
}

func (p point) String() string { return fmt.Sprintf("%s x=%s", p.metric, report.Number(p.x)) }

type sample struct {
	metric string
	unit   string
	x      float64
	value  float64
}

// sampler measures one point once, for about the given time.
type sampler = func(ctx context.Context, p point, d time.Duration) ([]sample, error)

type contender struct {
	system string
	sample sampler
	// lacks tells why the contender sits a point out; nil or "" if it does not.
	lacks func(p point) string
	// takes is how long a sample of about d takes in all; nil if that is d and usualOverhead.
	takes func(p point, d time.Duration) time.Duration
}

// without says why a contender skips a point: the reason if out reports true for the point, else "".
func without(why string, out func(p point) bool) func(point) string {
	return func(p point) string {
		if out(p) {
			return why
		}
		return ""
	}
}

// above makes a contender skip points with a parameter above a limit.
func above(limit float64, why string) func(point) string {
	return without(fmt.Sprintf("left out above %s: %s", report.Number(limit), why), func(p point) bool { return p.x > limit })
}

// sittingOut has those of the contenders that have these names sit out points.
func sittingOut(contenders []contender, lacks func(point) string, systems ...string) []contender {
	for i := range contenders {
		if slices.Contains(systems, contenders[i].system) {
			contenders[i].lacks = lacks
		}
	}
	return contenders
}

// eachOf are contenders that differ by their names only.
func eachOf(measure func(system string) sampler, systems ...string) (all []contender) {
	for _, system := range systems {
		all = append(all, contender{system: system, sample: measure(system)})
	}
	return all
}

func (c *contender) lacking(p point) string {
	if c.lacks == nil {
		return ""
	}
	return c.lacks(p)
}

func (c *contender) length(p point, d time.Duration) time.Duration {
	if c.takes == nil {
		return d + usualOverhead
	}
	return c.takes(p, d)
}

// slower has each sample of the contenders planned to take longer, by the given time.
func slower(by time.Duration, contenders []contender) []contender {
	for i := range contenders {
		contenders[i].takes = func(_ point, d time.Duration) time.Duration { return d + by }
	}
	return contenders
}

type serverSampler = func(ctx context.Context, s *server, p point, d time.Duration) ([]sample, error)

func serving(servers []*server, measure serverSampler) (all []contender) {
	for _, s := range servers {
		all = append(all, contender{system: s.system, sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
			return measure(ctx, s, p, d)
		}})
	}
	return all
}

func starting(launchers []launcher, measure serverSampler) (all []contender) {
	for _, l := range launchers {
		all = append(all, contender{system: l.system, sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
			s, err := l.start(ctx, needs{})
			if err != nil {
				return nil, err
			}
			defer s.child.Close()
			return measure(ctx, s, p, d)
		}})
	}
	return all
}

// step is one sample of the plan.
type step struct {
	round     int
	point     point
	contender *contender
}

// plan interleaves: all contenders at a point before the next point, all points
// before the next round, so that what disturbs the machine for a while disturbs
// everyone. Each round starts with another contender.
func plan(rounds int, points []point, contenders []contender) []step {
	var steps []step
	for round := range rounds {
		for _, p := range points {
			for i := range contenders {
				c := &contenders[(i+round)%len(contenders)]
				if c.lacking(p) == "" {
					steps = append(steps, step{round, p, c})
				}
			}
		}
	}
	return steps
}

// measure samples every point on every contender, for about wanted each time, less where a quick run asks for it; or, if
// called names the samples, for as long as each takes. A contender that fails at a point is left out there; if it is one
// of ours the run fails in the end. An interrupted run measures nothing any more.
func (r *run) measure(points []point, contenders []contender, wanted time.Duration, called func(system string, p point) string) {
	contenders = slices.DeleteFunc(slices.Clone(contenders), func(c contender) bool { return !r.wants(c.system) })
	timed := called == nil
	if timed {
		called = func(system string, p point) string { return system + " " + p.String() }
		r.skipLacking(points, contenders)
	}
	steps := plan(r.rounds(), points, contenders)
	if r.planning() {
		r.addPlan(steps, wanted, timed, called)
		return
	}
	out, d := map[string]bool{}, wanted
	for i, s := range steps {
		if r.ctx.Err() != nil {
			return
		}
		if timed && r.quick {
			left, beside := quickBudget-r.reserved-time.Since(r.began), s.contender.length(s.point, 0)
			if s.round > 0 && left < beside {
				r.note("time ran out: some points have fewer than %d runs", r.rounds())
				break
			}
			d = max(min(wanted, left/time.Duration(len(steps)-i)-beside), shortestSample)
		}
		name := called(s.contender.system, s.point)
		if out[name] {
			continue
		}
		at := fmt.Sprintf("[%*d/%d]", len(fmt.Sprint(len(steps))), i+1, len(steps))
		if timed && s.contender == &contenders[s.round%len(contenders)] {
			fmt.Fprintf(r.progress, "%s %v\n", at, s.point)
		}
		began := time.Now()
		samples, ok := r.try(s, name, d)
		out[name] = !ok
		if timed {
			continue
		}
		fmt.Fprintf(r.progress, "%s %4.1f s  %s", at, time.Since(began).Seconds(), cmp.Or(name, s.contender.system))
		for _, one := range samples {
			if !slices.Contains(r.details, one.metric) {
				fmt.Fprintf(r.progress, "  %s %s%s", one.metric, report.Number(one.value), strings.TrimPrefix(one.unit, "1"))
			}
		}
		fmt.Fprintln(r.progress)
	}
	if timed && !r.quick {
		r.profileLosses(points, contenders, wanted)
	}
}

func (r *run) skipLacking(points []point, contenders []contender) {
	for _, c := range contenders {
		for _, p := range points {
			if why := c.lacking(p); why != "" {
				r.skip(c.system+" "+p.metric, errors.New(why))
			}
		}
	}
}

// try takes the samples of a step, which is left out, by its name, if it fails.
func (r *run) try(s step, name string, d time.Duration) (samples []sample, ok bool) {
	r.round = s.round
	samples, err := s.contender.sample(r.ctx, s.point, d)
	if err == nil {
		err = r.add(s.contender.system, samples)
	}
	if err != nil && r.ctx.Err() == nil {
		r.fail(s.contender.system, name, err)
	}
	return samples, err == nil
}

// addPlan adds what the steps take to a plan: in a quick run not more than there is time for, but all of the first round.
func (r *run) addPlan(steps []step, wanted time.Duration, timed bool, called func(system string, p point) string) {
	var last string
	total, longest, first := time.Duration(0), time.Duration(0), time.Duration(0)
	for _, s := range steps {
		takes := s.contender.length(s.point, wanted)
		total, longest = total+takes, max(longest, takes)
		if s.round > 0 {
			continue
		}
		first += s.contender.length(s.point, min(wanted, shortestSample))
		at := s.point.String()
		if !timed {
			at = s.contender.system + ": " + strings.TrimSpace(called(s.contender.system, s.point)+" round 0")
			r.outline = append(r.outline, at)
			continue
		}
		if at != last {
			r.outline, last = append(r.outline, at+":"), at
		}
		r.outline[len(r.outline)-1] += " " + s.contender.system
	}
	switch {
	case !timed:
	case r.quick:
		total = min(total, max(quickBudget-r.reserved-*r.planned, first))
	case r.profiles == nil && len(steps) > 0:
		r.profiles = make([]report.Profile, lossesProfiled)
		total += lossesProfiled * longest
	}
	*r.planned += total
}

// wants reports whether a system was asked for; all are if none was named.
func (r *run) wants(system string) bool {
	if !slices.Contains(r.offered, system) {
		r.offered = append(r.offered, system)
	}
	return r.systems == nil || slices.Contains(r.systems, system)
}

// fail leaves out what could not be measured.
func (r *run) fail(system, what string, err error) {
	r.skip(what, err)
	if r.failed == nil && report.Own(ours, system) {
		r.failed = fmt.Errorf("%s: %w", what, err)
	}
}

func (r *run) add(system string, samples []sample) error {
	for _, s := range samples {
		if err := r.samples.Add(system, s.metric, s.unit, s.x, s.value); err != nil {
			return err
		}
	}
	return nil
}

// shortestSample is of quick runs that have no time.
const shortestSample = 20 * time.Millisecond
