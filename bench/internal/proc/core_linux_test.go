package proc

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestBusyTimeOfACore(t *testing.T) {
	const stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 4 8 16 32 64 128 7 7\ncpu1 1 0 0 5 0 0 0 0 0 0\ncpu10 x 0 0 5 0 0 0 0 0 0\n"
	for core, want := range []time.Duration{231 * tick, tick} {
		testenv.Got(coreBusy([]byte(stat), core))(t, want, "core %d", core)
	}
	for _, core := range []int{2, 10} {
		if got, err := coreBusy([]byte(stat), core); err == nil {
			t.Errorf("core %d: got %v", core, got)
		}
	}
	cores := testenv.Need(Cores())(t)
	if got, err := CoreBusy(cores[0]); got <= 0 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
