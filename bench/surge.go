package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

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
	describe: func(r *run, e *experiment) error {
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
