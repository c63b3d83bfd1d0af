//go:build linux

package aio

import (
	"context"
	"slices"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// File.life counts the users of the descriptor, so that close(2) happens once, after the
// last of them, and no system call ever meets a number that has been reused:
//
//	bit 0     closed: no new user may come
//	bit 1     a caller has taken it upon itself to call close(2)
//	bit 2     Close does not wait for the last user, which is to call it
//	bit 8-31  number of users
//	bit 32-63 number of uses so far, for pace; it wraps
const (
	lifeClosed = 1 << 0
	lifeTaken  = 1 << 1
	lifeLeft   = 1 << 2
	lifeUser   = 1 << 8
	lifeUses   = 1 << 32
)

func users(life uint64) uint64 { return life % lifeUses / lifeUser }

// enter makes the caller a user, until exit, unless f is closed. It returns the number of
// uses so far.
func (f *File) enter() (uses uint32, ok bool) {
	v := f.life.Add(lifeUser + lifeUses)
	if v&lifeClosed != 0 {
		f.exit()
		return 0, false
	}
	return uint32(v / lifeUses), true
}

func (f *File) exit() {
	if v := f.life.Add(^uint64(lifeUser - 1)); v&lifeClosed != 0 && users(v) == 0 {
		f.lastLeft()
	}
}

// enterAtPosition makes the caller a user and the only one that uses the position, until exitPosition.
func (f *File) enterAtPosition(op string) (uses uint32, err error) {
	if err := f.pos.LockContext(context.Background()); err != nil {
		return 0, f.fail(op, &contextError{err})
	}
	uses, ok := f.enter()
	if !ok {
		f.pos.Unlock()
		return 0, f.fail(op, errClosed)
	}
	return uses, nil
}

func (f *File) exitPosition() {
	f.exit()
	f.pos.Unlock()
}

// lastLeft is called when f is closed and has no users: the task in Close goes on, or, if Close did not wait, the
// caller closes the descriptor. A task that came too late to use f may call it too, at any time after.
func (f *File) lastLeft() {
	if w := f.closer.Swap(nil); w != nil {
		w.Wake()
		return
	}
	if f.life.Load()&lifeLeft != 0 && f.life.Or(lifeTaken)&lifeTaken == 0 {
		engine.Release(engine.Descriptors, 1)
		if f.writes {
			go sysClose(f.fd) // may wait for the disk
		} else {
			sysClose(f.fd)
		}
	}
}

// shut lets no new user come and asks for the end of what is under way. The caller is a
// user then. It never parks, and returns false if f was closed before.
func (f *File) shut() bool {
	if _, ok := f.enter(); !ok {
		return false
	}
	if f.life.Or(lifeClosed)&lifeClosed != 0 {
		f.exit()
		return false
	}
	var loops []*engine.Loop
	f.mu.Lock()
	for r := f.busy; r != nil; r = r.beside {
		if !slices.Contains(loops, r.loop) {
			loops = append(loops, r.loop)
		}
	}
	f.mu.Unlock()
	own := engine.CurrentLoop()
	for _, l := range loops {
		if l == own {
			f.cancelOn(l)
		} else {
			l.Post(func() { f.cancelOn(l) })
		}
	}
	return true
}

// cancelOn asks for the end of what the tasks of l wait for. It runs on l.
func (f *File) cancelOn(l *engine.Loop) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := f.busy; r != nil; r = r.beside {
		if r.loop == l && !r.firm {
			r.cancel()
		}
	}
}

// begin notes that r is under way; false if f is closed.
func (f *File) begin(r *request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Load()&lifeClosed != 0 {
		return false
	}
	r.beside = f.busy
	r.above = nil
	if f.busy != nil {
		f.busy.above = r
	}
	f.busy = r
	return true
}

func (f *File) end(r *request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.above == nil {
		f.busy = r.beside
	} else {
		r.above.beside = r.beside
	}
	if r.beside != nil {
		r.beside.above = r.above
	}
	r.beside, r.above = nil, nil
}

// awaitUsers parks until f, which is closed, has no users, the caller included. It returns false if it did not wait for
// that; the last user then closes the descriptor.
func (f *File) awaitUsers() bool {
	if users(f.life.Load()) == 1 { // the caller
		f.life.Add(^uint64(lifeUser - 1))
		return true
	}
	if engine.CurrentLoop() != nil && engine.Current() == nil { // the loop's own goroutine must not wait
		f.life.Or(lifeLeft)
		f.exit()
		return false
	}
	w := engine.Self()
	f.closer.Store(w)
	if v := f.life.Add(^uint64(lifeUser - 1)); users(v) == 0 && f.closer.CompareAndSwap(w, nil) {
		return true
	}
	return w.Wait(engine.ReasonClose, (*waitUsers)(f)) == nil
}

// A waitUsers is a File whose users are waited for.
type waitUsers File

func (p *waitUsers) Withdraw(w *engine.Waiter) bool {
	f := (*File)(p)
	if !f.closer.CompareAndSwap(w, nil) {
		return false
	}
	// The last user may have gone before it could know that the rest of Close is left to it.
	f.life.Or(lifeLeft)
	if users(f.life.Load()) == 0 {
		f.lastLeft()
	}
	return true
}

func (p *waitUsers) DescribeWait() string { return (*File)(p).describe() }

// Uses of a file, and bytes, after which a task that never had to wait lets others run.
const (
	paceUses  = 32
	paceBytes = 64 << 10
)

// pace is called after something that did not wait: a task that reads what is in memory
// must not keep its loop for ever.
func pace(uses uint32, n int) {
	if uses%paceUses == 0 || n >= paceBytes {
		engine.Yield()
	}
}
