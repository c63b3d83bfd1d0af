//go:build linux

package uring

import (
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/sys/unix"
)

// result is request for one completion.
func result(t testing.TB, d *Driver, r *record, prepare func(e *SubmissionQueueEntry)) int32 {
	t.Helper()
	*r = record{buf: r.buf, keep: r.keep}
	request(t, d, r, prepare)
	return r.res[0]
}

func want(t testing.TB, what string, got, want int32) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %d (%v), want %d", what, got, syscall.Errno(max(-got, 0)), want)
	}
}

func TestMultishotPoll(t *testing.T) {
	bothIssuers(t, Config{}, func(t *testing.T, d *Driver) {
		fd := need(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))(t)
		defer unix.Close(fd)
		var r record
		e := need(d.Entry())(t)
		e.PreparePollMultishot(fd, unix.POLLIN)
		token := d.Track(e, &r)
		must(t, d.Flush())
		for i := range 20 {
			testenv.Need(unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}))(t)
			until(t, d, func() bool { return len(r.res) > i })
		}
		if r.done() || d.InFlight() != 1 {
			t.Fatalf("ended: flags %v, in flight %d", r.flags, d.InFlight())
		}
		must(t, d.Cancel(token))
		until(t, d, r.done)
	})
}
