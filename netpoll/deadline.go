//go:build linux

package netpoll

import (
	"net"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/kernel"
)

// Times are kept as nanoseconds since started, which fit into an int64.
var started = time.Now()

// epoch is the zero of these times. In a simulation, where no clock is monotonic, it is in the simulated time.
func epoch() time.Time {
	if k := kernel.Net; k != nil {
		return k.Epoch()
	}
	return started
}

// deadlines holds both deadlines of a desc and the one alarm that serves them. It is
// made when the first deadline is set. Times are nanoseconds since epoch, 0 for none;
// 292 years on, where an int64 ends, is as far as they go.
//
// The alarm is set lazily: moving a deadline away, which servers do once per request,
// leaves it alone; when it rings too early it is set again for what is due then.
type deadlines struct {
	alarm engine.Alarm
	timer *time.Timer // guarded by desc.mu: in place of the alarm while the desc is loose
	read  int64       // guarded by desc.mu
	write int64       // guarded by desc.mu
	armed int64       // guarded by desc.mu: when the alarm rings, 0: not set
	last  int64       // guarded by desc.mu: no read deadline is later than this; 0: any
}

// setDeadline sets the deadlines of the directions named by which (flagReadExpired, flagWriteExpired). The zero time
// means none. It never parks.
func (d *desc) setDeadline(which uint32, t time.Time) error {
	if d.life.Load()&lifeClosed != 0 {
		return net.ErrClosed
	}
	var at int64
	if !t.IsZero() {
		after := t.Sub(epoch())
		if t == t.Round(0) { // no monotonic reading, and the wall clock may have been set since epoch
			left := time.Until(t) // in this order: see arm
			after = engine.After(time.Since(epoch()), left)
		}
		at = max(int64(after), 1)
	}
	d.mu.Lock()
	dl := d.deadlines
	if dl == nil {
		if at == 0 {
			d.mu.Unlock()
			return nil
		}
		dl = &deadlines{}
		d.deadlines = dl
	}
	if dl.last != 0 && which&flagReadExpired != 0 && (at == 0 || at > dl.last) {
		if which&flagWriteExpired != 0 {
			d.mu.Unlock()
			d.setDeadline(flagWriteExpired, t)
			d.mu.Lock()
			which = flagReadExpired
		}
		at = dl.last
	}
	if which&flagReadExpired != 0 {
		dl.read = at
	}
	if which&flagWriteExpired != 0 {
		dl.write = at
	}
	// Also with an alarm that rings earlier, which may be overdue: the clock tells.
	if at != 0 && at <= int64(time.Since(epoch())) {
		d.expire(which)
		return nil
	}
	d.unexpire(which)
	if at != 0 && (dl.armed == 0 || at < dl.armed) {
		d.arm(dl, at)
	}
	d.mu.Unlock()
	return nil
}

// endReads ends every wait of a Read at t at the latest, whatever read deadline is set, now or later.
func (d *desc) endReads(t time.Time) {
	at := max(int64(t.Sub(epoch())), 1)
	d.flags.Or(flagDraining)
	d.mu.Lock()
	if d.deadlines == nil {
		d.deadlines = &deadlines{}
	}
	dl := d.deadlines
	dl.last = at
	sooner := dl.read != 0 && dl.read <= at
	d.mu.Unlock()
	if !sooner {
		d.setDeadline(flagReadExpired, t)
	}
}

func (d *desc) unexpire(which uint32) {
	if d.flags.Load()&which != 0 {
		d.flags.And(^which)
	}
}

// arm sets the alarm. Caller holds mu. A closed descriptor rings no more.
func (d *desc) arm(dl *deadlines, at int64) {
	if d.flags.Load()&flagClosing != 0 {
		return
	}
	dl.armed = at
	// In this order: whatever passes between the readings makes the alarm late, not early.
	left := time.Duration(at) - time.Since(epoch())
	switch {
	case d.flags.Load()&flagLoose == 0:
	case dl.timer == nil:
		dl.timer = time.AfterFunc(left, d.Ring)
		return
	default:
		dl.timer.Reset(left)
		return
	}
	dl.alarm.Set(d.loop, engine.After(d.loop.Now(), left), d)
}

// rearmDeadline is called when d has got loose or has been bound. A deadline that was set before may
// still ring, too early. Caller holds mu.
func (d *desc) rearmDeadline() {
	dl := d.deadlines
	if dl == nil || dl.armed == 0 {
		return
	}
	if dl.timer != nil {
		dl.timer.Stop()
	}
	d.arm(dl, dl.armed)
}

// expire marks deadlines as passed and wakes the waiting tasks. Caller holds mu; it is unlocked.
func (d *desc) expire(which uint32) {
	d.flags.Or(which)
	d.mu.Unlock()
	if which&flagReadExpired != 0 {
		d.interrupted(d.read.interrupt())
		d.giveUp()
	}
	if which&flagWriteExpired != 0 {
		d.interrupted(d.write.interrupt())
	}
}

// Ring implements engine.Ringer for the alarm, and is called by the timer; both may be too
// early.
func (d *desc) Ring() {
	d.mu.Lock()
	dl := d.deadlines
	now := int64(time.Since(epoch()))
	var which uint32
	var next int64
	for _, x := range [...]struct {
		at   int64
		flag uint32
	}{{dl.read, flagReadExpired}, {dl.write, flagWriteExpired}} {
		switch {
		case x.at == 0:
		case x.at <= now:
			which |= x.flag
		case next == 0 || x.at < next:
			next = x.at
		}
	}
	// Also if armed is yet to come: the two clocks may differ a little, and an alarm that
	// rang too early is not set any more.
	dl.armed = 0
	if next != 0 {
		d.arm(dl, next)
	}
	d.expire(which &^ d.flags.Load())
}

// drop takes the alarm out of the loop's timers, which would keep d in memory. Caller holds
// mu.
func (dl *deadlines) drop(l *engine.Loop) {
	if dl.timer != nil {
		dl.timer.Stop()
	}
	if l.Runs() {
		dl.alarm.Drop()
		return
	}
	dl.alarm.Stop()
	l.Post(dl.alarm.Drop)
}
