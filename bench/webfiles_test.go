package main

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestTreeIsThatOfSPECweb99(t *testing.T) {
	tree := newWebTree(coldFolders)
	if got := float64(tree.bytes()); math.Abs(got-3.2e9) > 0.1e9 {
		t.Errorf("%.3g bytes in all", got)
	}
	if got := tree.path(36 + 13); got != "dir00001/class1_5" || webFileBytes(36+13) != 5*1024 {
		t.Errorf("file 49 is %s of %d bytes", got, webFileBytes(49))
	}
	l := newRNG(3)
	const draws = 200_000
	classes, folders, bytes := [4]float64{}, map[int]int{}, 0.0
	for range draws {
		n := tree.draw(&l)
		if n < 0 || n >= tree.files() {
			t.Fatalf("drew file %d of %d", n, tree.files())
		}
		classes[n%filesPerFolder/len(fileWeights)]++
		folders[n/filesPerFolder]++
		bytes += float64(webFileBytes(n))
	}
	for i, want := range classWeights {
		if got := classes[i] / draws; math.Abs(got-want) > 0.01 {
			t.Errorf("class %d has %.3f of the requests, want %.2f", i, got, want)
		}
	}
	if mean := bytes / draws; mean < 13_000 || mean > 16_000 {
		t.Errorf("%.0f bytes a request", mean)
	}
	if len(folders) != coldFolders || folders[0] < draws/10 {
		t.Errorf("%d folders were drawn, the most popular %d times", len(folders), folders[0])
	}
}

func writtenTree(t *testing.T) (*webTree, string) {
	tree, root := newWebTree(2), filepath.Join(t.TempDir(), "tree")
	testenv.Must(t, tree.write(t.Context(), root))
	return tree, root
}

func fetchSamples(ctx context.Context, r *run, s *server) ([]sample, error) {
	return samplesOf(ctx, time.Second, r.ownClient(append([]string{"fetch"}, flagPairs("addr", s.addr, "pid", s.child.PID(),
		"conns", 20, "folders", 2, "warm", 5*time.Millisecond, "for", 200*time.Millisecond)...)...))
}

func TestFileOfAnotherLengthIsNoticed(t *testing.T) {
	needTwoCores(t)
	tree, root := writtenTree(t)
	for n := range tree.files() {
		testenv.Must(t, os.WriteFile(filepath.Join(root, tree.path(n)), []byte("short"), 0o666))
	}
	r := testRun(t)
	s := testenv.Need(startServer(t.Context(), "net-http", r.self, workerCommand, "files", "-kind", "net-http", "-root", root))(t)
	defer s.child.Close()
	testenv.ErrorSays(t, testenv.Err(fetchSamples(t.Context(), r, s)), "Content-Length")
}

func TestColdSampleInAMemoryGroup(t *testing.T) {
	needTwoCores(t)
	if err := proc.CanHave(proc.NewMemoryGroup(coldLimit)); err != nil {
		t.Skip(err)
	}
	tree, root := writtenTree(t)
	c := &cold{run: testRun(t), tree: tree, root: root, limit: coldLimit}
	if err := os.Chmod(filepath.Dir(filepath.Dir(root)), 0o755); err != nil { // for Apache, which serves nothing as root
		t.Fatal(err)
	}
	for _, contender := range c.contenders(c.webServers()) {
		samples, err := contender.sample(t.Context(), point{metric: "cold", x: 10}, 300*time.Millisecond)
		if err != nil {
			t.Errorf("%s: %v", contender.system, err)
			continue
		}
		if memory, err := value(samples, "memory"); err != nil || memory <= 0 || memory > coldLimit/1e6 {
			t.Errorf("%s: %+v", contender.system, samples)
		}
	}
}

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
	l, drawn := newRNG(1), map[int]int{}
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
