package main

import (
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// grown is the size of the stack of a new goroutine that has called f.
func grown(f func()) int {
	size := make(chan int)
	go func() {
		f()
		size <- int(coro.Headroom() + coro.Depth())
	}()
	return <-size
}

func TestFunctionsNeedTheStackTheySay(t *testing.T) {
	if !coro.Exact {
		t.Skip("the portable stubs don't know the size of a stack")
	}
	if got := grown(bigFrame); got < bigFrameBytes || got > 3*bigFrameBytes {
		t.Errorf("after bigFrame a stack has %d KiB", got>>10)
	}
	// A goroutine's stack is a power of two, of which the runtime keeps some for itself.
	for _, need := range []int{16 << 10, 32 << 10} {
		if got := grown(func() { useStack(need) }); got < need*7/8 || got > 4*need {
			t.Errorf("after useStack(%d) a stack has %d KiB", need, got>>10)
		}
	}
}

func TestPageIsRendered(t *testing.T) {
	got, err := renderPage()
	if err != nil || !strings.Contains(string(got), "Basket of Ada &lt;b&gt;") || !strings.Contains(string(got), `"tags":["blue"]`) {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestBigStackIsMeasured(t *testing.T) {
	r := measuringRun(t)
	for _, system := range []string{"capriccio", "goroutine"} {
		samples, killed, err := r.bigSample(t.Context(), system, 20)
		if err != nil || killed {
			t.Fatalf("%s: killed %v, %v", system, killed, err)
		}
		if s, err := value(samples, "seconds"); err != nil || s <= 0 {
			t.Errorf("%s: %+v", system, samples)
		}
	}
	if _, _, err := r.bigSample(t.Context(), "x", 20); err == nil {
		t.Error("a system x was measured")
	}
}

func TestOtherWorkersMeasureEveryMetric(t *testing.T) {
	r := measuringRun(t)
	for kind, known := range map[string]map[string]metricFunc{
		"stack-capriccio": chunkMetrics, "stack-goroutine": growMetrics,
		"epoll-go": epollMetrics, "deep-capriccio": deepTaskMetrics(freshTasks), "deep-goroutine": deepTaskMetrics(goroutines.fresh),
	} {
		for metric := range known {
			x := 2.0
			if metric == "link-call-unlink" {
				x = 32 << 10
			}
			samples, err := onServerCore(kind, r.self, workerCommand, kind).sample(t.Context(), point{metric: metric, x: x}, time.Millisecond)
			if err != nil || samples[0].metric != metric || samples[0].x != x || samples[0].value <= 0 {
				t.Errorf("%s %s: %+v, %v", kind, metric, samples, err)
			}
		}
	}
}

func TestDeepServersAreMeasured(t *testing.T) {
	r := measuringRun(t)
	for _, system := range []string{"capriccio", "goroutine"} {
		for _, suffix := range []string{"", realSuffix} {
			samples, err := r.deepSample(t.Context(), system, point{metric: "bytes-per-conn" + suffix, x: 40}, time.Second)
			if err != nil {
				t.Errorf("%s%s: %v", system, suffix, err)
			} else if _, err := value(samples, "stack-per-conn"+suffix+afterGCSuffix); err != nil || samples[0].metric != "bytes-per-conn"+suffix {
				t.Errorf("%s%s: %+v", system, suffix, samples)
			}
		}
	}
}
