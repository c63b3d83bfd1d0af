//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// burned is the CPU time of threads of burnerProgram, in nanoseconds.
type burned struct{ Steps, Calls atomic.Int64 }

// burnerProgram is a plain Go program with a goroutine that computes, one in system calls, and one that makes work for the collector. At
// /burned it tells how much CPU time the threads of the first two have used.
func burnerProgram() {
	var used burned
	block := make([]byte, 1<<20)
	go burn(&used.Steps, func() {
		for i := range block {
			block[i] ^= byte(i)
		}
	})
	zeros, err := syscall.Open("/dev/zero", syscall.O_RDONLY, 0)
	if err != nil {
		panic(err)
	}
	into := make([]byte, 1<<20)
	go burn(&used.Calls, func() { syscall.Read(zeros, into) })
	go litter()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	http.HandleFunc("/burned", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%d %d", used.Steps.Load(), used.Calls.Load())
	})
	go http.Serve(ln, nil)
	fmt.Printf("ready\nhttp://%s\n", ln.Addr())
	io.Copy(io.Discard, os.Stdin)
}

// burn calls fn on a thread of its own, and keeps the CPU time of that.
func burn(used *atomic.Int64, fn func()) {
	runtime.LockOSThread()
	for {
		for range 5 {
			fn()
		}
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
			panic(err)
		}
		used.Store(now.Nano())
		time.Sleep(time.Millisecond)
	}
}

var kept [1 << 15]*[8]*int

func litter() {
	for i := 0; ; i = (i + 1) % len(kept) {
		kept[i] = &[8]*int{new(int)}
		if i%1000 == 0 {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

// TestCPUOfAProcess compares what the first screen says with the kernel's word about the process and its threads.
func TestCPUOfAProcess(t *testing.T) {
	cmd, out, _ := start(t, "burner")
	url := strings.TrimSpace(testenv.Need(out.ReadString('\n'))(t))
	pid := cmd.Process.Pid
	type reading struct {
		at                    time.Time
		process, steps, calls time.Duration
	}
	read := func() (r reading) {
		r.at, r.process = time.Now(), testenv.Need(systemKernel().cpu(pid))(t)
		resp := testenv.Need(http.Get(url + "/burned"))(t)
		defer resp.Body.Close()
		testenv.Need(fmt.Sscan(readAll(t, resp.Body), &r.steps, &r.calls))(t)
		return r
	}
	for source, within := range map[string]float64{strconv.Itoa(pid): 0.15, url: 0.3} { // a profile misses the ends of what threads use
		before := read()
		shown := commandIn(t, context.Background(), realSurroundings(), "-timeout", "1m", "-seconds", "3", "-dump", source)
		after := read()
		testenv.MustEqual(t, shown.code, exitOK, "%s: %s", source, shown.errOut)
		s := testenv.Need(bgraph.Decode(strings.NewReader(shown.out)))(t)
		process, c := after.process-before.process, s.Sampled
		all := float64(c.Steps + c.Calls + c.Collector + c.Tracer + c.Scheduler + c.Foreign)
		if all < 60 {
			t.Skipf("the machine has let the program run for %v only", process)
		}
		want, got := float64(process)/float64(after.at.Sub(before.at)), float64(s.ProcessCPU)/float64(s.Span)
		if math.Abs(got-want) > within*want {
			t.Errorf("%s: bgdump says %.3f processors, the kernel %.3f", source, got, want)
		}
		if testenv.Race {
			continue // its work is in steps, and in the calls that the program measures
		}
		for _, share := range []struct {
			of        string
			got, want float64
		}{
			{"steps", float64(c.Steps) / all, float64(after.steps-before.steps) / float64(process)},
			{"system calls", float64(c.Calls) / all, float64(after.calls-before.calls) / float64(process)},
		} {
			// litter is in steps, too, and at times calls go to steps: 3 standard deviations, and a tenth.
			if limit := 0.1 + 3*math.Sqrt(share.want*(1-share.want)/all); math.Abs(share.got-share.want) > limit {
				t.Errorf("%s: %s are %.2f of %.0f samples, and %.2f of the CPU time; %+v", source, share.of, share.got, all, share.want, c)
			}
		}
		// The collector's share is small: a hundred samples may have none of it.
		if c.Collector == 0 && all > 300 || float64(c.Steps+c.Calls+c.Collector) < all/2 {
			t.Errorf("%s: too little is explained: %+v", source, c)
		}
	}
}

// profileOf is a CPU profile as net/http/pprof sends it, with samples of these values.
func profileOf(values ...[]int64) *bytes.Buffer {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}}
	for _, v := range values {
		p.SampleType = p.SampleType[:len(v)]
		p.Sample = append(p.Sample, &profile.Sample{Value: v})
	}
	var b bytes.Buffer
	p.Write(&b)
	return &b
}

// TestCPUProfilesAreAddedUp: the first value of a sample is a count, the second one a time.
func TestCPUProfilesAreAddedUp(t *testing.T) {
	p := readCPUProfile(profileOf([]int64{7, 9}, []int64{3, 1}))
	if p.err != nil || p.samples != 10 || p.cpu != 10 {
		t.Errorf("got %+v; want 10 samples of 10 ns", p)
	}
	const most = graphlimits.Number
	if p := readCPUProfile(profileOf([]int64{most, most}, []int64{most, most})); p.err != nil || p.samples != most || p.cpu != most {
		t.Errorf("got %+v; want the sums to end at %d", p, uint64(most))
	}
}

// TestBadCPUProfiles: an answer that is no CPU profile is told, and the trace is shown.
func TestBadCPUProfiles(t *testing.T) {
	packed := func(text []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(text)
		z.Close()
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		answer []byte
		want   string
	}{
		"a text":         {[]byte("no profile today"), "the answer is no profile"},
		"nothing":        {nil, "the answer is no profile"},
		"cut off":        {packed(make([]byte, 1000))[:20], "it broke off"},
		"another format": {packed([]byte("{}")), "the answer is no CPU profile"},
		"of one value":   {profileOf([]int64{7}).Bytes(), "the answer is no CPU profile"},
		"of less than 0": {profileOf([]int64{1, -1}).Bytes(), "the answer is no CPU profile"},
		"of a bad size":  {packed([]byte{2<<3 | 2, 100, 1}), "the answer is no CPU profile"},
		"too long":       {packed(make([]byte, mostProfile+1)), "it is longer than 67108864 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			profiled := newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace")
			profiled.HandleFunc("/debug/pprof/profile", func(w http.ResponseWriter, _ *http.Request) { w.Write(c.answer) })
			r := commandIn(t, context.Background(), &surroundings{clock: systemClock{}}, "-timeout", "1m", serving(t, profiled))
			testenv.Equal(t, r.code, exitOK, "%s", r.errOut)
			testenv.Contains(t, r.out, "there is no CPU profile: "+c.want, "the first lines")
			testenv.Contains(t, r.out, "how much CPU the process used is not known: no CPU profile ran beside the trace", "the first lines")
		})
	}
}

func TestCPUOfNoProcess(t *testing.T) {
	f := newFakeProc(t)
	k := f.source().kernel
	f.write("stat", "4711 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 150 0 0")
	if got, err := k.cpu(4711); got != 4*time.Second || err != nil {
		t.Errorf("got %v, %v; want 4s", got, err)
	}
	for _, text := range []string{"", "4711 (x) S 1", "4711 (x) S 1 2 3 4 5 6 7 8 9 10 x 150"} {
		f.write("stat", text)
		testenv.Fails(t, testenv.Err(k.cpu(4711)), "%q", text)
	}
	testenv.Fails(t, testenv.Err(k.cpu(1<<22+1)), "no process")
}
