package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestSurgeDrawsWhatItSays(t *testing.T) {
	tree := newSurgeTree(100)
	testenv.Equal(t, newSurgeTree(100).bytes(), tree.bytes(), "server and client have different trees")
	small := 0
	for _, size := range tree.sizes {
		if size < 1 || size > surgeMost {
			t.Fatalf("a file of %d bytes", size)
		}
		if float64(size) < math.Exp(surgeMu) {
			small++
		}
	}
	if share := float64(small) / float64(tree.files()); math.Abs(share-0.5*(1-surgeTail)) > 0.02 {
		t.Errorf("%.3f of the files are smaller than the median of the body", share)
	}
	l, drawn := newLot(1), map[int]int{}
	for range 100_000 {
		drawn[tree.draw(&l)]++
	}
	most := 0
	for _, n := range drawn {
		most = max(most, n)
	}
	if want := 100_000 * tree.byRank[0]; math.Abs(float64(most)-want) > want/10 {
		t.Errorf("the most popular file was drawn %d times, want %.0f", most, want)
	}
	users := &surgeUsers{random: rand.New(rand.NewPCG(1, 1)), left: make([]int, 1)}
	pages, files, thought := 0, 0, time.Duration(0)
	for range 100_000 {
		page := users.left[0] == 0
		pause := users.think(0)
		files++
		if pause < 0 || pause > surgeThinkMost {
			t.Fatalf("a pause of %v", pause)
		}
		if page {
			pages++
			thought += pause
			if pause < time.Second {
				t.Fatalf("thought for %v only", pause)
			}
		}
	}
	if mean := float64(files) / float64(pages); mean < 1.2 || mean > 1.7 { // exactly: of the whole part of Pareto's
		t.Errorf("%.2f files a page", mean)
	}
	if mean := thought / time.Duration(pages); mean < 2400*time.Millisecond || mean > 3*time.Second { // 3 s, but for the cut
		t.Errorf("thought for %v", mean)
	}
}

func TestFileCachesByWay(t *testing.T) {
	r := measuringRun(t)
	for _, way := range cacheWays {
		samples, err := onBothCores(way, r.self).sample(t.Context(), point{metric: "per-request", x: 2}, time.Millisecond)
		if err != nil || samples[0].value <= 0 || samples[1].metric != "crossings" || samples[1].value > 0 && way != "capriccio-partitioned" {
			t.Errorf("%s: %+v, %v; want wakes between loops of the partitioned cache only", way, samples, err)
		}
	}
}
