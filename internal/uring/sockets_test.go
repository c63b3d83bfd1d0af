//go:build linux

package uring

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/sys/unix"
)

// Each receive of a multishot takes a provided buffer; without one left it ends with
// ENOBUFS, and no byte is lost.
func TestProvidedBuffers(t *testing.T) {
	bothIssuers(t, Config{}, func(t *testing.T, d *Driver) {
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
		e := need(d.Entry())(t)
		e.PrepareRecvMultishot(p[0], 0, 0, 0)
		e.SetFlags(uint32(SqeBufferSelect))
		e.BufIG = group
		d.Track(e, r)
		must(t, d.Flush())
		for i := range byte(entries + 1) {
			testenv.Need(unix.Write(p[1], []byte{'a' + i}))(t)
			until(t, d, func() bool { return len(r.res) == int(i)+1 })
		}
		for i, res := range r.res[:entries] {
			if res != 1 || r.flags[i]&CQEFBuffer == 0 || r.flags[i]&CQEFMore == 0 {
				t.Fatalf("completion %d: %d, flags %#x; want 1 byte in a buffer, and more to follow", i, res, r.flags[i])
			}
			if bid := r.flags[i] >> CQEBufferShift; memory[bid*size] != 'a'+byte(i) {
				t.Errorf("buffer %d holds %q", bid, memory[bid*size])
			}
		}
		if !r.done() || r.res[entries] != -int32(unix.ENOBUFS) {
			t.Fatalf("without buffers: %v, flags %#x; want ENOBUFS, the last", r.res[entries], r.flags[entries])
		}
		give(uint16(r.flags[2] >> CQEBufferShift))
		r2 := &record{keep: memory}
		want(t, "recv", result(t, d, r2, func(e *SubmissionQueueEntry) {
			e.PrepareRecv(p[0], 0, size, 0)
			e.SetFlags(uint32(SqeBufferSelect))
			e.BufIG = group
		}), 1)
		if bid := r2.flags[0] >> CQEBufferShift; bid != r.flags[2]>>CQEBufferShift || memory[bid*size] != 'a'+entries {
			t.Errorf("buffer %d holds %q", bid, memory[bid*size])
		}
	})
}
