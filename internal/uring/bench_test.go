//go:build linux

package uring

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// BenchmarkNop is a turn of a loop with a number of requests that complete at once; ns/op is
// for the whole turn.
func BenchmarkNop(b *testing.B) {
	for name, batch := range map[string]int{"1": 1, "64": 64} {
		for issuer, single := range map[string]bool{"any": false, "single": true} {
			b.Run("batch="+name+"/issuer="+issuer, func(b *testing.B) {
				d := newTestDriver(b, Config{SingleIssuer: single})
				var c last
				b.ReportAllocs()
				for b.Loop() {
					for range batch {
						e, _ := d.Entry()
						e.PrepareNop()
						d.Track(e, &c)
					}
					testenv.Must(b, d.Wait(time.Second))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/request")
			})
		}
	}
}

// BenchmarkTrack is what the driver adds to a request: a token, and finding its Completer.
func BenchmarkTrack(b *testing.B) {
	d := newTestDriver(b, Config{})
	var c last
	var e SubmissionQueueEntry
	for b.Loop() {
		d.complete(event{data: uint64(d.Track(&e, &c))})
	}
}

// BenchmarkIdle is a Wait(0) with a request in flight and nothing to do.
func BenchmarkIdle(b *testing.B) {
	d := newTestDriver(b, Config{})
	p := pipe(b)
	e, err := d.Entry()
	must(b, err)
	e.PreparePollAdd(p[0], unix.POLLIN)
	d.Track(e, new(last))
	for b.Loop() {
		d.Wait(0)
	}
}

// BenchmarkWake is a byte through a pipe whose reader has a multishot poll in the ring:
// write, completion, read. The completion work of a request belongs to the thread that
// handed it over; "moved" is a loop that runs on another one by now.
func BenchmarkWake(b *testing.B) {
	b.Run("issuer=any", func(b *testing.B) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		d := newTestDriver(b, Config{})
		wake(b, d, watch(b, d))
	})
	b.Run("issuer=single", func(b *testing.B) {
		d := newTestDriver(b, Config{SingleIssuer: true})
		wake(b, d, watch(b, d))
	})
	b.Run("issuer=moved", func(b *testing.B) {
		d := newTestDriver(b, Config{})
		handed, end := make(chan *watched), make(chan struct{})
		defer close(end)
		go func() {
			runtime.LockOSThread() // the thread waits, as one does whose goroutine has left
			defer runtime.UnlockOSThread()
			handed <- watch(b, d)
			<-end
		}()
		w := <-handed
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		wake(b, d, w)
	})
}

// watched counts the events of a pipe.
type watched struct {
	pipe   [2]int
	events int
}

func (w *watched) Complete(int32, uint32) { w.events++ }

func watch(b *testing.B, d *Driver) *watched {
	w := &watched{pipe: pipe(b)}
	e, err := d.Entry()
	must(b, err)
	e.PreparePollMultishot(w.pipe[0], unix.POLLIN)
	d.Track(e, w)
	must(b, d.Flush())
	return w
}

func wake(b *testing.B, d *Driver, w *watched) {
	buf := make([]byte, 1)
	for b.Loop() {
		unix.Write(w.pipe[1], buf)
		for before := w.events; w.events == before; {
			testenv.Must(b, d.Wait(time.Second))
		}
		unix.Read(w.pipe[0], buf)
	}
}
