package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/report"
	"golang.org/x/sys/unix"
)

// The tree of files and the requests of SPECweb99's static part: directories of 36 files
// in four classes of size, nine to a class.
var (
	classUnits   = [4]int64{102, 1024, 10_240, 102_400} // bytes; a class has 1 to 9 times as much
	classWeights = [4]float64{0.35, 0.50, 0.14, 0.01}
	fileWeights  = [9]float64{0.039, 0.059, 0.088, 0.178, 0.353, 0.118, 0.071, 0.050, 0.044}
)

const filesPerFolder = len(classUnits) * len(fileWeights)

// webTree is a tree with this many folders. File number n is file n%filesPerFolder of folder
// n/filesPerFolder.
type webTree struct {
	folders int
	byRank  []float64 // of folders: the share of the requests up to this one (Zipf)
	byFile  []float64 // of the files of a folder, likewise
	sizes   []int64   // of a tree of SURGE, whose byRank is of files; else nil
}

func newWebTree(folders int) *webTree { return newZipfTree(folders, 1) }

// newZipfTree is a tree of whose folders the one of rank n is asked for in proportion to n^-alpha.
func newZipfTree(folders int, alpha float64) *webTree {
	t := &webTree{folders: folders}
	sum := 0.0
	for i := range folders {
		sum += math.Pow(float64(i+1), -alpha)
		t.byRank = append(t.byRank, sum)
	}
	for i := range t.byRank {
		t.byRank[i] /= sum
	}
	at := 0.0
	for _, class := range classWeights {
		for _, file := range fileWeights {
			at += class * file
			t.byFile = append(t.byFile, at)
		}
	}
	return t
}

func webFileBytes(n int) int64 {
	i := n % filesPerFolder
	return classUnits[i/len(fileWeights)] * int64(i%len(fileWeights)+1)
}

func (t *webTree) files() int { return t.folders * filesPerFolder }

func (t *webTree) bytes() (sum int64) {
	for n := range t.files() {
		sum += t.size(n)
	}
	return sum
}

func (t *webTree) size(n int) int64 {
	if t.sizes != nil {
		return t.sizes[n]
	}
	return webFileBytes(n)
}

// path is a file's, below the root and of a URL.
func (t *webTree) path(n int) string {
	i := n % filesPerFolder
	return fmt.Sprintf("dir%05d/class%d_%d", n/filesPerFolder, i/len(fileWeights), i%len(fileWeights)+1)
}

// draw draws a file. Which folders are popular says nothing about where they are on disk.
func (t *webTree) draw(l *rng) int {
	const prime = 0x9e3779b1 // so that each rank has a folder of its own
	if t.sizes != nil {
		return int(uint64(search(t.byRank, l)) * prime % uint64(t.files()))
	}
	folder := int(uint64(search(t.byRank, l)) * prime % uint64(t.folders))
	return folder*filesPerFolder + search(t.byFile, l)
}

// search draws from a distribution given by its sums.
func search(sums []float64, l *rng) int {
	const grain = 1 << 30
	i, _ := slices.BinarySearch(sums, float64(l.below(grain))/grain)
	return min(i, len(sums)-1)
}

// write makes the tree below root, on the disk and not in the page cache.
func (t *webTree) write(ctx context.Context, root string) error {
	content := make([]byte, surgeMost)
	fillByLot(content, 9)
	for folder := range t.folders {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(t.path(folder*filesPerFolder))), 0o777); err != nil {
			return err
		}
		for n := folder * filesPerFolder; n < (folder+1)*filesPerFolder; n++ {
			if err := os.WriteFile(filepath.Join(root, t.path(n)), content[:t.size(n)], 0o666); err != nil {
				return err
			}
		}
	}
	dir, err := os.Open(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("syncfs: %w", err)
	}
	return t.uncache(root)
}

// uncache drops the files' pages from the page cache, no matter which process they are charged to.
func (t *webTree) uncache(root string) error {
	for n := range t.files() {
		if err := uncache(filepath.Join(root, t.path(n))); err != nil {
			return err
		}
	}
	return nil
}

// SURGE's distributions (Barford and Crovella, SIGMETRICS 1998). A time is in seconds, a
// size in bytes; the tails are cut, as a run has an end.
const (
	surgeMu, surgeSigma               = 9.357, 1.318 // lognormal: body of the sizes of files
	surgeTail                         = 0.07         // share of the files that is not of the body
	surgeTailLeast, surgeTailExponent = 133_000, 1.1 // Pareto: tail of the sizes
	surgeMost                         = 4 << 20      // no file is larger
	surgeReferences                   = 2.43         // Pareto from 1: files of a page
	surgeThink                        = 1.5          // Pareto from 1 s: between pages
	surgeThinkMost                    = 100 * time.Second
	surgeScale, surgeShape            = 1.46, 0.382 // Weibull: between the files of a page
)

// pareto draws from Pareto's distribution.
func pareto(r *rand.Rand, least, exponent float64) float64 {
	return least / math.Pow(1-r.Float64(), 1/exponent)
}

// newSurgeTree is a tree whose files have SURGE's sizes. They are asked for by Zipf's law.
func newSurgeTree(folders int) *webTree {
	t := &webTree{folders: folders}
	r := rand.New(rand.NewPCG(1998, 6))
	sum := 0.0
	for n := range t.files() {
		size := math.Exp(surgeMu + surgeSigma*r.NormFloat64())
		if r.Float64() < surgeTail {
			size = pareto(r, surgeTailLeast, surgeTailExponent)
		}
		t.sizes = append(t.sizes, int64(min(max(size, 1), surgeMost)))
		sum += 1 / float64(n+1)
		t.byRank = append(t.byRank, sum)
	}
	for i := range t.byRank {
		t.byRank[i] /= sum
	}
	return t
}

// surgeUsers are SURGE's user equivalents: each fetches a page, file after file, then thinks.
type surgeUsers struct {
	random *rand.Rand
	left   []int // files of the page under way, by user
}

// think is how long a user waits before its next request.
func (u *surgeUsers) think(user int) time.Duration {
	if u.left[user] > 0 {
		u.left[user]--
		pause := surgeScale * math.Pow(-math.Log(1-u.random.Float64()), 1/surgeShape)
		return min(time.Duration(pause*float64(time.Second)), surgeThinkMost)
	}
	u.left[user] = int(min(pareto(u.random, 1, surgeReferences), 1000)) - 1
	return min(time.Duration(pareto(u.random, 1, surgeThink)*float64(time.Second)), surgeThinkMost)
}

// webSurgeExperiment has users with think times fetch pages (Cohort Scheduling, Figures 6 and 7).
var webSurgeExperiment = experiment{
	name: "web-surge",
	doc:  "files for users with think times, a fifth of the files in memory (Cohort Scheduling, Figures 6 and 7)",
	prepare: func(r *run, e *experiment) error {
		tree := newSurgeTree(choose(r.quick, 120, 556))
		limit := max(tree.bytes()/5, 64_000_000) // room for the server itself
		c, err := newCold(r, "web-surge", tree, limit, "surge", true)
		if c == nil {
			return err
		}
		e.parts = []part{{
			points: pointsAt("surge", 50, 800, 4000),
			quick:  pointsAt("surge", 200, 2000),
			systems: func(r *run) []contender {
				return c.contenders(append([]launcher{
					c.files("knot", []string{capriccio.EnvSched + "=fifo"}, "-kind", "knot"),
					c.files("knot-cohorts", []string{capriccio.EnvSched + "=cohort"}, "-kind", "knot"),
					c.files("net-http-256", nil, "-kind", "net-http", "-most", "256"),
				}, c.nginxFiles("nginx", "aio threads;")...))
			},
			length: choose(r.quick, 4*time.Second, 12*time.Second),
			once:   true, // shorter samples than one think time show nothing
		}}
		e.notes = []string{
			fmt.Sprintf("x: users; each fetches a page, of files one after the other, and thinks before the next, on a connection that it keeps; cut at %v", surgeThinkMost),
			fmt.Sprintf("%d files of %d MB in all, of SURGE's sizes, at most %d MB each, drawn by Zipf's law; server and pages may have %d MB; nothing is in memory at first; a third of each sample passes before measuring",
				tree.files(), tree.bytes()/1e6, surgeMost>>20, limit/1e6),
			"net-http-256: at most 256 requests at a time, as the paper's server of threads; nginx: one process with aio threads; 1,000,000 pages and 15 minutes in the paper",
		}
		return nil
	},
	charts: []report.Chart{
		{Title: "Requests by users", Metric: "rps", XLabel: "users"},
		{Title: "Mean of latency", Metric: "mean", XLabel: "users", LogY: true},
		{Title: "CPU time per request on the server", Metric: "cpu-per-request", XLabel: "users"},
	},
}
