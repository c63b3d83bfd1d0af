//go:build linux

package uring

import (
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// newTestDriver makes a driver on the kernel, or skips the test. It is closed at the end.
func newTestDriver(t testing.TB, cfg Config) *Driver {
	t.Helper()
	d, err := NewDriver(cfg)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOMEM) {
		t.Skipf("io_uring is not to be had: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	testenv.Must(t, err)
}

func need[T any](v T, err error) func(testing.TB) T { return testenv.Need(v, err) }

// bothWays runs the test with each of the ways to work for completions.
func bothWays(t *testing.T, cfg Config, f func(t *testing.T, d *Driver)) {
	for _, name := range []string{"any", "cooperative"} {
		t.Run(name, func(t *testing.T) {
			cfg.Cooperative = name == "cooperative"
			f(t, newTestDriver(t, cfg))
		})
	}
}

// A record takes completions.
type record struct {
	res   []int32
	flags []uint32
	buf   []byte // memory of the request
	keep  any
}

func (r *record) Complete(res int32, flags uint32) {
	r.res = append(r.res, res)
	r.flags = append(r.flags, flags)
}

func (r *record) done() bool {
	return len(r.flags) > 0 && r.flags[len(r.flags)-1]&CQEFMore == 0
}

// track asks for what prepare describes, for c.
func track(t testing.TB, d *Driver, c Completer, prepare func(e *SubmissionQueueEntry)) Token {
	t.Helper()
	e := need(d.Entry())(t)
	prepare(e)
	return d.Track(e, c)
}

// request is track, and waits for the last completion. It returns the result of the only one.
func request(t testing.TB, d *Driver, r *record, prepare func(e *SubmissionQueueEntry)) int32 {
	t.Helper()
	*r = record{buf: r.buf, keep: r.keep}
	track(t, d, r, prepare)
	until(t, d, r.done)
	return r.res[0]
}

func noOp(e *SubmissionQueueEntry) { e.PrepareNop() }

// poll prepares a wait until fd can be read.
func poll(fd int) func(*SubmissionQueueEntry) {
	return func(e *SubmissionQueueEntry) { e.PreparePollAdd(fd, unix.POLLIN) }
}

// timeout prepares a pause.
func timeout(r *record, ts unix.Timespec) func(*SubmissionQueueEntry) {
	r.keep = &ts
	return func(e *SubmissionQueueEntry) { PrepareTimeout(e, &ts, 0, 0) }
}

// blockingRead prepares a read of a pipe into r, by a thread of the kernel's if byThread is set.
func blockingRead(r *record, fd int, byThread bool) func(*SubmissionQueueEntry) {
	r.buf = make([]byte, 64)
	return func(e *SubmissionQueueEntry) {
		e.PrepareRead(fd, address(r.buf), uint32(len(r.buf)), ^uint64(0))
		if byThread {
			e.SetFlags(uint32(SqeAsync))
		}
	}
}

func until(t testing.TB, d *Driver, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); {
		must(t, d.Wait(time.Second))
		if time.Now().After(end) {
			t.Fatalf("not done after a minute; in flight %d, pending %d", d.InFlight(), d.Pending())
		}
	}
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func TestReadWrite(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, d *Driver) {
		f := need(os.CreateTemp(t.TempDir(), ""))(t)
		defer f.Close()
		fd := int(f.Fd())
		w := &record{buf: []byte("hello, ring")}
		n := request(t, d, w, func(e *SubmissionQueueEntry) { e.PrepareWrite(fd, address(w.buf), uint32(len(w.buf)), 3) })
		testenv.MustEqual(t, n, 11, "write")
		r := &record{buf: make([]byte, 32)}
		n = request(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareRead(fd, address(r.buf), 32, 0) })
		testenv.Equal(t, string(r.buf[:max(n, 0)]), "\x00\x00\x00hello, ring", "read") // short: 14 of 32 bytes
		n = request(t, d, &record{}, func(e *SubmissionQueueEntry) { e.PrepareRead(-1, 0, 1, 0) })
		testenv.Equal(t, n, -int32(unix.EBADF), "read of descriptor -1")
	})
}

func TestWaitEndsInTime(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, d *Driver) {
		start := time.Now()
		must(t, d.Wait(3*time.Millisecond))
		testenv.AtLeast(t, time.Since(start), 3*time.Millisecond, "Wait(3ms) took")
	})
}

// Each receive of a multishot takes a provided buffer; without one left it ends with
// ENOBUFS, and no byte is lost.
func TestProvidedBuffers(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, d *Driver) {
		const entries, size, group = 4, 16, 7
		br, err := d.SetupBufRing(entries, group)
		if err != nil {
			t.Skip(err)
		}
		testenv.Fails(t, testenv.Err(d.SetupBufRing(entries, group)), "the same number twice: no error")
		testenv.Fails(t, testenv.Err(d.SetupBufRing(3, group+1)), "three entries: no error; the number must be a power of two")
		memory := make([]byte, entries*size)
		give := func(bid uint16) {
			br.BufRingAdd(address(memory)+uintptr(bid)*size, size, bid, entries-1, 0)
			br.BufRingAdvance(1)
		}
		for i := range uint16(entries) {
			give(i)
		}
		p := socketpair(t)
		r := &record{keep: memory}
		track(t, d, r, func(e *SubmissionQueueEntry) {
			e.PrepareRecvMultishot(p[0], 0, 0, 0)
			e.SetFlags(uint32(SqeBufferSelect))
			e.BufIG = group
		})
		must(t, d.Flush())
		for i := range byte(entries + 1) {
			testenv.Need(unix.Write(p[1], []byte{'a' + i}))(t)
			until(t, d, func() bool { return len(r.res) == int(i)+1 })
		}
		for i, res := range r.res[:entries] {
			if res != 1 || r.flags[i]&CQEFBuffer == 0 || r.flags[i]&CQEFMore == 0 {
				t.Fatalf("completion %d: %d, flags %#x; want 1 byte in a buffer, and more to follow", i, res, r.flags[i])
			}
			bid := r.flags[i] >> CQEBufferShift
			testenv.True(t, memory[bid*size] == 'a'+byte(i), "buffer %d holds %q", bid, memory[bid*size])
		}
		if !r.done() || r.res[entries] != -int32(unix.ENOBUFS) {
			t.Fatalf("without buffers: %v, flags %#x; want ENOBUFS, the last", r.res[entries], r.flags[entries])
		}
		give(uint16(r.flags[2] >> CQEBufferShift))
		r2 := &record{keep: memory}
		n := request(t, d, r2, func(e *SubmissionQueueEntry) {
			e.PrepareRecv(p[0], 0, size, 0)
			e.SetFlags(uint32(SqeBufferSelect))
			e.BufIG = group
		})
		testenv.Equal(t, n, 1, "recv")
		bid := r2.flags[0] >> CQEBufferShift
		testenv.True(t, bid == r.flags[2]>>CQEBufferShift && memory[bid*size] == 'a'+entries, "buffer %d holds %q", bid, memory[bid*size])
	})
}

func TestTable(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	var table table
	model := make(map[Token]Completer)
	var gone []Token
	most := 0
	for range 20_000 {
		switch {
		case rnd.IntN(2) == 0:
			c := new(record)
			k := table.put(c)
			if _, there := model[k]; there || k == 0 {
				t.Fatalf("token %#x was given out", k)
			}
			model[k] = c
			most = max(most, len(model))
		case len(gone) > 0 && rnd.IntN(4) == 0:
			k := gone[rnd.IntN(len(gone))]
			testenv.MustEqual(t, table.find(k) == nil && table.take(k, true) == nil, true, "token %#x is gone", k)
		default:
			for k, c := range model {
				testenv.MustEqual(t, table.take(k, false), c, "token %#x", k)
				testenv.MustEqual(t, table.take(k, true), c, "token %#x", k)
				delete(model, k)
				gone = append(gone, k)
				break
			}
		}
	}
	testenv.True(t, table.used == len(model) && len(table.tokens()) == len(model) && len(table.slots) == most,
		"%d used, %d listed, %d places; want %d, %d, %d", table.used, len(table.tokens()), len(table.slots), len(model), len(model), most)
}
