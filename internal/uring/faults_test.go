//go:build linux && !giouring

package uring

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/sys/unix"
)

// nops queues n no-ops, and counts their completions.
func nops(t testing.TB, d *Driver, n int) *int {
	left := n
	for range n {
		track(t, d, countdown{&left}, noOp)
	}
	return &left
}

type countdown struct{ left *int }

func (c countdown) Complete(int32, uint32) { *c.left-- }

func never(t testing.TB, d *Driver) *record {
	r := new(record)
	track(t, d, r, poll(0))
	return r
}

func TestFaultsOfEnter(t *testing.T) {
	for name, script := range map[string][]fault{
		"none":        nil,
		"EINTR":       {{e: unix.EINTR}, {e: unix.EINTR}},
		"EAGAIN":      {{e: unix.EAGAIN}, {e: unix.EAGAIN}, {e: unix.EAGAIN}},
		"EBUSY":       {{e: unix.EBUSY}, {e: unix.EBUSY}},
		"ETIME":       {{e: unix.ETIME}},
		"short":       {{short: 1}, {short: 2}, {short: 1}},
		"short, busy": {{short: 1}, {e: unix.EBUSY}, {short: 1}, {e: unix.EAGAIN}, {e: unix.EINTR}},
	} {
		for _, timeout := range []time.Duration{0, -1, time.Second} {
			if timeout == 0 && name == "ETIME" {
				continue // there is no such
			}
			t.Run(name+"/"+timeout.String(), func(t *testing.T) {
				k, d := onFake(t, Config{Entries: 8})
				left := nops(t, d, 5)
				k.script = script
				for range 10 {
					if *left > 0 {
						must(t, d.Wait(timeout))
					}
				}
				testenv.True(t, *left == 0 && d.InFlight() == 0 && d.Pending() == 0,
					"%d not completed, %d in flight, %d pending; want none", *left, d.InFlight(), d.Pending())
			})
		}
	}
}

func TestEnterErrorIsReported(t *testing.T) {
	k, d := onFake(t, Config{Entries: 8})
	for name, call := range map[string]func() error{
		"Flush":   d.Flush,
		"Wait":    func() error { return d.Wait(time.Second) },
		"Wait(0)": func() error { return d.Wait(0) },
	} {
		nops(t, d, 1)
		k.script = []fault{{e: unix.EBADR}}
		testenv.ErrorIs(t, call(), unix.EBADR, name)
		must(t, d.Wait(0))
	}
}

func TestFullQueueThatIsNotTaken(t *testing.T) {
	k, d := onFake(t, Config{Entries: 4})
	left := nops(t, d, 4)
	k.script = []fault{{e: unix.EAGAIN}}
	e, err := d.Entry()
	testenv.True(t, e == nil && errors.Is(err, ErrFull), "Entry: got %v, %v; want ErrFull", e, err)
	testenv.True(t, d.Pending() == 4 && d.Stats().Refused == 1, "pending %d, refused %d; want 4, 1", d.Pending(), d.Stats().Refused)
	must(t, d.Wait(0))
	testenv.Equal(t, *left, 0, "not completed")
}

// EBUSY stands for completions that must be taken out first. In Entry their Completers
// are not called.
func TestBusyInEntryCallsNobody(t *testing.T) {
	k, d := onFake(t, Config{Entries: 4})
	left := nops(t, d, 4)
	must(t, d.Flush())
	nops(t, d, 4)
	k.script = []fault{{e: unix.EBUSY}}
	testenv.Need(d.Entry())(t)
	testenv.MustEqual(t, *left, 4, "requests that Entry has not completed")
	testenv.Equal(t, d.Reap(), 8, "Reap")
}

func TestOverflowOfTheCompletionQueue(t *testing.T) {
	k, d := onFake(t, Config{Entries: 4, Completions: 4})
	left := nops(t, d, 50)
	must(t, d.Flush())
	testenv.MustEqual(t, len(k.excess) > 0, true, "some have overflown")
	for range 20 {
		must(t, d.Wait(0))
	}
	testenv.Equal(t, *left, 0, "not completed")
}

func TestStaleCompletionIsDropped(t *testing.T) {
	k, d := onFake(t, Config{})
	old := never(t, d)
	must(t, d.Flush())
	token := k.pending[0]
	must(t, d.Cancel(Token(token)))
	must(t, d.Wait(0))
	testenv.MustEqual(t, old.done(), true, "the old request is cancelled")
	never(t, d) // in the place of the cancellation
	r := never(t, d)
	must(t, d.Flush())
	testenv.MustEqual(t, uint32(k.pending[1]), uint32(token), "the place that is used again")
	k.post(token, 7, 0)
	k.post(token, 7, CQEFMore)
	k.post(uint64(99), 7, 0)        // a place that never was
	k.post(^uint64(0), 7, 0)        // likewise
	must(t, d.Cancel(Token(token))) // asks for nothing
	must(t, d.Wait(0))
	testenv.True(t, len(old.res) == 1 && len(r.res) == 0 && d.InFlight() == 2,
		"completions of the old request %v, of the new one %v, in flight %d; want one, none, 2", old.res, r.res, d.InFlight())
	testenv.Equal(t, d.Stats().Stale, 4, "stale")
	must(t, d.Close())
	testenv.True(t, r.done(), "Close did not complete what was in flight")
}

// A cancellation without effect is repeated until the request has ended, no longer.
func TestCancelAgain(t *testing.T) {
	k, d := onFake(t, Config{})
	k.stubborn = true
	r := never(t, d)
	must(t, d.Flush())
	must(t, d.Cancel(Token(k.pending[0])))
	for i := range 12 {
		must(t, d.Wait(0)) // the answer
		must(t, d.Wait(0)) // the pause is handed over
		testenv.MustEqual(t, len(k.timeout), 1, "timeouts of attempt %d", i)
		testenv.MustEqual(t, r.done(), false, "attempt %d has ended it", i)
		k.stubborn = i < 10
		if i == 11 {
			break
		}
		k.fire()
		must(t, d.Wait(0)) // the pause is over
		must(t, d.Wait(0)) // the next attempt is handed over
		if r.done() {
			break
		}
	}
	testenv.True(t, r.done() && d.InFlight() == 0 && len(k.timeout) == 0,
		"ended %v, %d in flight, %d timeouts; want true, 0, 0", r.done(), d.InFlight(), len(k.timeout))
}

func TestCloseOfOldKernels(t *testing.T) {
	k := newFakeKernel(t)
	k.noAny = true
	d := k.mustDriver(Config{Entries: 4})
	var all []*record
	for range 20 {
		all = append(all, never(t, d))
	}
	must(t, d.Close())
	for i, r := range all {
		testenv.True(t, len(r.res) == 1 && r.res[0] == -int32(unix.ECANCELED), "request %d: completions %v; want ECANCELED", i, r.res)
	}
	k.allGone()
}

func TestCloseGivesUp(t *testing.T) {
	for _, noAny := range []bool{false, true} {
		k := newFakeKernel(t)
		k.stubborn, k.noAny = true, noAny
		d := k.mustDriver(Config{CloseTimeout: time.Nanosecond})
		never(t, d)
		abandoned.mu.Lock()
		before := len(abandoned.slots)
		abandoned.mu.Unlock()
		err := d.Close()
		testenv.Fails(t, err, "no error")
		abandoned.mu.Lock()
		testenv.Equal(t, len(abandoned.slots), before+1, "the memory is not kept")
		abandoned.slots = nil
		abandoned.mu.Unlock()
		k.allGone()
	}
}

func TestSetupOfOldKernels(t *testing.T) {
	const first = SetupCQSize | SetupClamp
	for name, knows := range map[string]uint32{
		"5.19": first | SetupSubmitAll | SetupCoopTaskrun | SetupTaskrunFlag,
		"5.18": first | SetupSubmitAll,
		"5.11": first,
	} {
		for _, cfg := range []Config{{}, {Cooperative: true}} {
			k := newFakeKernel(t)
			k.knows = knows
			k.features &^= FeatSingleMMap * uint32(len(name)%2) // two mappings or three
			d, err := k.driver(cfg)
			if err != nil {
				t.Errorf("%s, %+v: %v", name, cfg, err)
				continue
			}
			testenv.Equal(t, k.p.flags&SetupCoopTaskrun != 0, cfg.Cooperative && knows&SetupCoopTaskrun != 0, "%s, %+v: COOP_TASKRUN", name, cfg)
			left := nops(t, d, 3)
			must(t, d.Wait(0))
			testenv.Equal(t, *left, 0, "%s, %+v: N not completed", name, cfg)
			must(t, d.Close())
			k.allGone()
		}
	}
	k := newFakeKernel(t)
	k.features &^= FeatExtArg
	testenv.Fails(t, testenv.Err(k.driver(Config{})), "Linux 5.10: no error")
	k.allGone()
	k = newFakeKernel(t)
	k.rings = nil // mmap fails
	testenv.ErrorIs(t, testenv.Err(k.driver(Config{})), unix.ENOMEM, "no memory")
	k.allGone()
}

func TestErrorsOfSetup(t *testing.T) {
	for _, e := range []syscall.Errno{unix.ENOSYS, unix.EPERM, unix.ENOMEM, unix.EMFILE, unix.EINVAL, unix.EIO} {
		k := newFakeKernel(t)
		k.setupErr = e
		testenv.ErrorIs(t, testenv.Err(k.driver(Config{})), e, "%v", e)
	}
}

func TestCloseOfAnUnusedRing(t *testing.T) {
	k, d := onFake(t, Config{})
	br := need(d.SetupBufRing(4, 1))(t)
	br.BufRingAdvance(1)
	r := never(t, d)
	must(t, d.Close())
	must(t, d.Close())
	testenv.True(t, len(r.res) == 1 && r.res[0] == -int32(unix.ECANCELED), "completions %v; want ECANCELED", r.res)
	k.allGone()
}

func TestTrackOfNobodyPanics(t *testing.T) {
	_, d := onFake(t, Config{})
	defer func() { testenv.True(t, recover() != nil, "no panic") }()
	d.Track(need(d.Entry())(t), nil)
}
