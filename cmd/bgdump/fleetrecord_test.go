//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A fleetUnderWay is a fleet that is recorded once a minute.
type fleetUnderWay struct {
	t     *testing.T
	clock *fakeClock
	dir   string
	stop  context.CancelFunc
	done  chan result
}

func recordingFleet(t *testing.T, sur *surroundings, args ...string) *fleetUnderWay {
	u := &fleetUnderWay{t: t, clock: sur.clock.(*fakeClock), dir: filepath.Join(t.TempDir(), "recordings"), done: make(chan result, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	u.stop = cancel
	t.Cleanup(cancel)
	// Only the pauses between rounds are shorter than a minute.
	args = append([]string{"-record", u.dir, "-interval", "1m", "-timeout", "999h"}, args...)
	go func() { u.done <- commandIn(t, ctx, sur, args...) }()
	return u
}

// idle waits until a round is over.
func (u *fleetUnderWay) idle() {
	u.clock.mu.Lock()
	defer u.clock.mu.Unlock()
	for !slices.ContainsFunc(u.clock.timers, func(x fakeTimer) bool { return !x.at.After(u.clock.now.Add(time.Minute)) }) {
		u.clock.changed.Wait()
	}
}

// rounds lets n of them pass.
func (u *fleetUnderWay) rounds(n int) {
	u.idle()
	for range n {
		u.clock.advance(time.Minute)
		u.idle()
	}
}

// counts says how many recordings each folder has.
func (u *fleetUnderWay) counts() string {
	var out []string
	for _, folder := range testenv.Need(foldersIn(u.dir))(u.t) {
		out = append(out, fmt.Sprintf("%s=%d", filepath.Base(folder), len(names(u.t, folder))))
	}
	return strings.Join(out, " ")
}

func TestRecordingAFleet(t *testing.T) {
	clk := newFakeClock()
	var down atomic.Int64
	down.Store(3)
	server := serving(t, podFleet(t, func(i int) *bgraph.Snapshot {
		if int64(i) == down.Load() {
			return nil
		}
		return podGraph(t, i, clk.Now().Add(time.Duration(i/2)*time.Hour)) // the clock of pods 2 and 3 is an hour ahead
	}))
	list := writeFile(t, "targets.yml", "")
	targets := func(numbers ...int) {
		var text strings.Builder
		for _, i := range numbers {
			fmt.Fprintf(&text, "- targets: ['%s/%d/debug/bgraph/']\n  labels: {pod: '../shop/%d'}\n", server, i, i)
		}
		testenv.Must(t, os.WriteFile(list, []byte(text.String()), 0o600))
	}
	targets(0, 2, 3)
	u := recordingFleet(t, &surroundings{clock: clk}, "-targets", list, server+"/1/debug/bgraph/")
	u.rounds(1)
	one := fileName(strings.TrimPrefix(server, "http://")) + "_1_debug_bgraph_"
	testenv.Equal(t, u.counts(), one+"=2 _shop_0=2 _shop_2=2", "after two rounds")
	newest := names(t, filepath.Join(u.dir, "_shop_2"))[1]
	testenv.Equal(t, recordedAt(newest), clk.Now(), "the time of a recording of a program whose clock is ahead")

	down.Store(2)
	u.rounds(1)
	down.Store(9)
	targets(0, 3, 5)
	u.rounds(1)
	testenv.Equal(t, u.counts(), one+"=4 _shop_0=4 _shop_2=2 _shop_3=2 _shop_5=1", "after four rounds")
	testenv.Must(t, os.Remove(list))
	u.rounds(2)
	testenv.Equal(t, u.counts(), one+"=6 _shop_0=6 _shop_2=2 _shop_3=4 _shop_5=3", "without the list of targets")
	targets(0)
	u.rounds(1)
	u.stop()
	r := <-u.done
	testenv.Equal(t, r.code, exitOK, r.errOut)
	for want, times := range map[string]int{
		"../shop/3: the answer at /3/debug/bgraph/ is 503":             1,
		"../shop/2: the answer at /2/debug/bgraph/ is 503":             1,
		"../shop/3: it works again":                                    1,
		"../shop/2: its clock is 1h0m0s ahead":                         1,
		"1 new element in the lists of targets: ../shop/5":             1,
		"1 element not in the lists of targets any more: ../shop/2":    1,
		"targets.yml: no such file or directory":                       1,
		"the lists of targets can be read again":                       1,
		"recording 4 sources every 1m0s in " + u.dir:                   1,
		"2 elements not in the lists of targets any more: ../shop/3, ": 1,
		fmt.Sprintf("%d snapshots written to", 6+6+2+4+3+2):            1,
	} {
		testenv.Equal(t, strings.Count(r.errOut, want), times, "it said %q N times:\n%s", want, r.errOut)
	}
	// A fleet that gives nothing is not recorded.
	down.Store(0)
	r = commandIn(t, context.Background(), &surroundings{clock: clk}, "-record", t.TempDir(), "-targets", list)
	if r.code != exitFailed || !strings.Contains(r.errOut, "no graph of 1 source") {
		t.Errorf("got %+v", r)
	}
}

// Targets of one name are not recorded in one folder, as their graphs are those of different programs.
func TestRecordingTargetsOfOneName(t *testing.T) {
	clk := newFakeClock()
	server := serving(t, podFleet(t, func(i int) *bgraph.Snapshot { return podGraph(t, i, clk.Now()) }))
	list := writeFile(t, "targets.yml", fmt.Sprintf("- targets: ['%s/0/debug/bgraph/']\n  labels: {pod: shop}\n- targets: ['%[1]s/1/debug/bgraph/']\n  labels: {pod: shop}\n", server))
	u := recordingFleet(t, &surroundings{clock: clk}, "-targets", list)
	u.rounds(1)
	folder := fileName("shop " + server)
	testenv.Equal(t, u.counts(), folder+"_0_debug_bgraph_=2 "+folder+"_1_debug_bgraph_=2")
	u.stop()
	<-u.done
}

// A second target of a name is a new element, and so is a target at another address.
func TestRecordingTargetsThatMove(t *testing.T) {
	clk := newFakeClock()
	server := serving(t, podFleet(t, func(i int) *bgraph.Snapshot { return podGraph(t, i, clk.Now()) }))
	list := writeFile(t, "targets.yml", "")
	targets := func(numbers ...int) {
		var text strings.Builder
		for _, i := range numbers {
			fmt.Fprintf(&text, "- targets: ['%s/%d/debug/bgraph/']\n  labels: {pod: shop}\n", server, i)
		}
		testenv.Must(t, os.WriteFile(list, []byte(text.String()), 0o600))
	}
	targets(0)
	u := recordingFleet(t, &surroundings{clock: clk}, "-targets", list)
	u.rounds(1)
	targets(0, 1)
	u.rounds(1)
	targets(1)
	u.rounds(1)
	targets(2)
	u.rounds(1)
	u.stop()
	said := (<-u.done).errOut
	var got []string
	for _, line := range strings.Split(said, "\n") {
		if _, change, ok := strings.Cut(strings.ReplaceAll(line, server, ""), "bgdump: 1 "); ok {
			got = append(got, change)
		}
	}
	const come, gone = "new element in the lists of targets: shop ", "element not in the lists of targets any more: shop "
	testenv.Equal(t, strings.Join(got, "\n"), strings.Join([]string{
		come + "/1/debug/bgraph/", gone + "/0/debug/bgraph/", come + "/2/debug/bgraph/", gone + "/1/debug/bgraph/",
	}, "\n"), said)
}

// A program whose trace was taken a moment ago gives the same one again: that is no sign of a clock that is behind, and is not recorded again.
func TestRecordingTracesOfAFleet(t *testing.T) {
	server := serving(t, newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace"))
	u := recordingFleet(t, &surroundings{clock: newFakeClock()}, "-interval", "5s", "-targets", writeFile(t, "t.json", `[{"targets": ["`+server+`"], "labels": {"pod": "bakery"}}]`))
	u.idle()
	u.clock.advance(5 * time.Second)
	u.idle()
	testenv.Equal(t, u.counts(), "bakery=1")
	u.stop()
	r := <-u.done
	testenv.Equal(t, strings.Count(r.errOut, "its clock is"), 1, r.errOut) // that of the file is
}

// Pods are recorded as they come and go.
func TestRecordingPods(t *testing.T) {
	clk := newFakeClock()
	server := testenv.Need(url.Parse(serving(t, podFleet(t, func(i int) *bgraph.Snapshot { return podGraph(t, i, clk.Now()) }))))(t)
	events := make(chan string)
	account := inCluster(t, func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("watch") {
			fmt.Fprintf(w, `{"kind":"PodList","items":[%s]}`, podJSON("shop-1", "127.0.0.1", "True"))
			return
		}
		w.(http.Flusher).Flush()
		for {
			select {
			case e := <-events:
				io.WriteString(w, e)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	u := recordingFleet(t, &surroundings{clock: clk, account: account}, "-targets", "k8s:shop/app=shop:"+server.Port()+"/7/debug/bgraph/")
	u.rounds(1)
	testenv.Equal(t, u.counts(), "shop-1=2")
	change := func(kind, pod string) { events <- `{"type":"` + kind + `","object":` + pod + "}" }
	// In each step another pod has the address, so that it is recorded when all changes are known.
	step := func(gone, kind, pod, next string) {
		change("DELETED", podJSON(gone, "127.0.0.1", "True"))
		change(kind, pod)
		change("MODIFIED", podJSON(next, "127.0.0.1", "True"))
		testenv.Until(t, next+" is recorded", func() bool {
			u.rounds(1)
			return strings.Contains(u.counts(), next+"=1")
		})
	}
	first := podJSON("shop-2", "127.0.0.2", "False")
	second := strings.ReplaceAll(first, "Containers", "Sidecars")
	step("shop-1", "ADDED", first, "shop-3")
	step("shop-3", "MODIFIED", second, "shop-4")
	step("shop-4", "MODIFIED", second, "shop-2")
	u.stop()
	r := <-u.done
	testenv.Equal(t, r.code, exitOK, r.errOut)
	for want, times := range map[string]int{
		"new elements? .*: .*shop-2": 1, "not in the lists .*: .*shop-1": 1, "not in the lists .*: .*shop-2": 0, // it is ready now
		`shop-2: the pod is not ready \(Containers\?NotReady\)\n`: 1, `shop-2: the pod is not ready \(Sidecars\?NotReady\)\n`: 1,
	} {
		testenv.Equal(t, len(regexp.MustCompile(want).FindAllString(r.errOut, -1)), times, "it said %q N times:\n%s", want, r.errOut)
	}
}

func TestRetention(t *testing.T) {
	now := time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		keep retention
		want string
	}{
		{retention{}, "a/0 a/1 a/2 a/3 a/notes.txt b/1 b/2 c/3"},
		{retention{number: 2}, "a/0 a/1 a/notes.txt b/1 b/2 c/3"},
		{retention{age: 90 * time.Minute}, "a/0 a/1 a/notes.txt b/1"},
		{retention{size: 400}, "a/0 a/1 a/notes.txt b/1 b/2"}, // of two recordings of one hour, that in the first folder goes first
		{retention{size: 1}, "a/0 a/notes.txt"},
	} {
		dir := t.TempDir()
		testenv.Must(t, os.Mkdir(filepath.Join(dir, "empty"), 0o700))
		for _, file := range strings.Fields("a/0 a/1 a/2 a/3 b/1 b/2 c/3") { // folder, hours ago
			s := &bgraph.Snapshot{Program: bgraph.Program{Name: "x", PID: 1}, Taken: now.Add(-time.Duration(file[2]-'0') * time.Hour)}
			testenv.Must(t, os.MkdirAll(filepath.Join(dir, file[:1]), 0o700))
			testenv.Must(t, os.WriteFile(filepath.Join(dir, file[:1], nameRecording(s)), make([]byte, 100), 0o600))
		}
		testenv.Must(t, os.WriteFile(filepath.Join(dir, "a", "notes.txt"), make([]byte, 1000), 0o600))
		testenv.Must(t, c.keep.prune(dir, now))
		var left []string
		for _, folder := range testenv.Need(foldersIn(dir))(t) {
			for _, name := range names(t, folder) {
				if recordingName.MatchString(name) {
					name = fmt.Sprint(now.Sub(recordedAt(name)).Hours())
				}
				left = append(left, filepath.Base(folder)+"/"+name)
			}
			testenv.True(t, filepath.Base(folder) != "c" || c.want[len(c.want)-1] == '3', "%+v: the folder c is left without recordings", c.keep)
		}
		slices.Sort(left)
		testenv.Equal(t, strings.Join(left, " "), c.want, "%+v", c.keep)
	}
}

// While the folder grows, its oldest recordings make room.
func TestRecordingAFleetIsBounded(t *testing.T) {
	clk := newFakeClock()
	server := serving(t, podFleet(t, func(i int) *bgraph.Snapshot { return podGraph(t, i, clk.Now()) }))
	info := testenv.Need(os.Stat(shopFile))(t)
	most := 6 * info.Size()
	u := recordingFleet(t, &surroundings{clock: clk}, "-keep-size", fmt.Sprint(most), server+"/0/debug/bgraph/", server+"/1/debug/bgraph/", server+"/2/debug/bgraph/")
	u.rounds(5)
	var total int64
	for _, folder := range testenv.Need(foldersIn(u.dir))(t) {
		for _, name := range names(t, folder) {
			total += testenv.Need(os.Stat(filepath.Join(folder, name)))(t).Size()
		}
	}
	testenv.AtMost(t, total, most, "bytes in the folder")
	testenv.AtLeast(t, total, most/2, "bytes in the folder")
	u.stop()
	testenv.Contains(t, (<-u.done).errOut, "18 snapshots written")
}
