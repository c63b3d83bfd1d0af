package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func smallDiskFiles(t *testing.T) diskFiles {
	dir := t.TempDir()
	files := diskFiles{filepath.Join(dir, "small"), filepath.Join(dir, "large")}
	if err := writeBlocks(t.Context(), files.large, 16<<20); err != nil {
		if strings.Contains(err.Error(), "O_DIRECT") {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	testenv.Must(t, writeBlocks(t.Context(), files.small, 1<<20))
	return files
}

func TestDiskWorkersReadWhatTheyShould(t *testing.T) {
	needTwoCores(t)
	files := smallDiskFiles(t)
	r := testRun(t)
	for _, c := range r.diskContenders(files) {
		for _, p := range []point{
			{metric: readsDirect, x: 1}, {metric: readsDirect, x: 5},
			{metric: readsMixed, x: 0}, {metric: readsMixed, x: 20}, {metric: readsMixed, x: 100},
			{metric: readsBuffered, x: 1},
		} {
			if c.lacks != nil && c.lacks(p) != "" {
				continue
			}
			givenTime(t, func(d time.Duration) error { return checkDiskSample(t, c, p, d) })
		}
	}
}

func checkDiskSample(t *testing.T, c contender, p point, d time.Duration) error {
	samples, err := c.sample(t.Context(), p, d)
	if err != nil {
		return fmt.Errorf("%s %v: %w", c.system, p, err)
	}
	suffix := ""
	if p.metric == readsBuffered {
		suffix = "-buffered"
	}
	if rate, err := value(samples, "reads"+suffix); err != nil || rate <= 0 || samples[0].x != p.x {
		return fmt.Errorf("%s %v: got %+v", c.system, p, samples)
	}
	// What is under way at both ends makes the share inexact in a short time.
	missed, err := value(samples, "missed"+suffix)
	if err == nil && (p.x == 0 && missed > 1 || p.x == 100 && missed < 20) {
		return fmt.Errorf("%s %v: missed %v %%", c.system, p, missed)
	}
	return nil
}

// readFunc is a file of any content.
type readFunc func(p []byte, off int64) (int, error)

func (f readFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

func measureReads(t *testing.T, metric string, blocks int64, read readFunc, sleep func()) []sample {
	t.Helper()
	var out strings.Builder
	d := &diskReads{misses: 100, once: metric == readsBuffered, buffers: make([]byte, diskBlock)}
	d.miss = diskFile{read, int(blocks)}
	err := d.measure(job{metric: metric, x: 1, duration: time.Nanosecond, emit: emitAt(&out, 1)}, &threads{spawn: goSpawn, sleep: func(time.Duration) { sleep() }})
	testenv.Must(t, err)
	samples := testenv.Need(parseSamples(strings.Split(strings.TrimSpace(out.String()), "\n")))(t)
	return samples
}

// A block begins with its number.
func numbered(p []byte, off int64) (int, error) {
	binary.LittleEndian.PutUint64(p, uint64(off/diskBlock))
	return len(p), nil
}

func TestSlowDiskIsWaitedFor(t *testing.T) {
	first, looks := make(chan struct{}), 0
	samples := measureReads(t, readsDirect, 1<<10, func(p []byte, off int64) (int, error) {
		<-first
		return numbered(p, off)
	}, func() {
		if looks++; looks == 10 { // long after the measurement should have ended
			close(first)
		}
		runtime.Gosched()
	})
	if rate, err := value(samples, readsDirect); err != nil || rate <= 0 {
		t.Errorf("got %+v, %v", samples, err)
	}
}

func TestWrongBlockIsNoticed(t *testing.T) {
	files := smallDiskFiles(t)
	if err := os.WriteFile(files.large, make([]byte, 16<<20), 0o666); err != nil { // all say that they are number 0
		t.Fatal(err)
	}
	r := testRun(t)
	for _, kind := range []string{"disk-goroutine", "disk-capriccio"} {
		_, err := samplesOf(t.Context(), time.Second, proc.Command{Path: r.self, Core: proc.AnyCore,
			Args: []string{workerCommand, kind, readsBuffered, "2", "10", "100", files.small, files.large}})
		testenv.ErrorSays(t, err, "begins with 0", kind)
	}
}

func TestEachBlockIsReadOnce(t *testing.T) {
	const n = 1 << 12
	seen := map[int]bool{}
	for i := 1; i <= n; i++ {
		seen[scattered(i, n)] = true
	}
	testenv.Equal(t, len(seen), n, "%d numbers went to N places", n)
}

func TestFioIsReadAndToldWhatToDo(t *testing.T) {
	const out = "note: something\n{\"jobs\":[{\"error\":0,\"usr_cpu\":10.0,\"sys_cpu\":40.0,\"read\":{\"iops\":100000.0,\"runtime\":300}}]}\n"
	samples, err := fioSamples(readsDirect, out)
	if err != nil || samples[0].value != 100000 || samples[1].value != 5000 {
		t.Errorf("got %+v, %v", samples, err)
	}
	for _, bad := range []string{"", "{}", strings.Replace(out, `"error":0`, `"error":5`, 1), strings.Replace(out, "100000.0", "0", 1)} {
		if got, err := fioSamples(readsDirect, bad); err == nil {
			t.Errorf("%q gave %+v", bad, got)
		}
	}
	files := diskFiles{"/s", "/l"}
	for job, want := range map[diskJob]string{
		{readsDirect, 7, 100}: "--filename=/l --direct=1 --iodepth=7",
		{readsMixed, 200, 0}:  "--filename=/s --direct=0 --iodepth=200",
	} {
		line := fmt.Sprint(fioArgs(job, files, 500*time.Millisecond))
		for _, flag := range append(strings.Fields(want), "--runtime=400ms", "--ramp_time=100ms") {
			testenv.Contains(t, line, flag, "%+v", job)
		}
	}
}
