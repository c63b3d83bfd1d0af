//go:build unix

package graphcases

import (
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// CPUTime is the processor time that the tests have used so far. Other programs that take
// the processor away do not count.
func CPUTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	testenv.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
