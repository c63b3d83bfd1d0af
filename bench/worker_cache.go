package main

import (
	"container/list"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

// cacheWays are ways to keep a cache of files that tasks of several loops look into.
var cacheWays = []string{"capriccio-shared", "capriccio-partitioned", "capriccio-per-loop"}

const (
	cacheFiles     = 10_000
	cacheFileBytes = 4 << 10
	cacheParts     = 16
	cacheTasks     = 64 // a loop
	cacheAsked     = 64 // requests between two yields, as if each was of another connection
)

// A cachePart maps paths to contents, the last used first. It belongs to a loop, or to the holder of mu.
type cachePart struct {
	mu    sync.Mutex
	taken uint64 // times that mu was held by another; guarded by mu
	files map[string]*list.Element
	order list.List
}

type cachedFile struct {
	path string
	body []byte
}

func newCachePart() *cachePart { return &cachePart{files: map[string]*list.Element{}} }

func (c *cachePart) add(f *cachedFile) { c.files[f.path] = c.order.PushFront(f) }

// find returns a content, which is nil if there is none.
func (c *cachePart) find(path string) []byte {
	e := c.files[path]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cachedFile).body
}

// A fileTable is a cache of one of cacheWays.
type fileTable struct {
	way   string
	loops int
	seed  maphash.Seed
	parts []*cachePart
	asked []*task.Chan[*cacheRequest] // of partitioned: for each loop what others ask it
}

// A cacheRequest goes to the loop that has the file and comes back. It belongs to one task.
type cacheRequest struct {
	path string
	body []byte
	done *task.Chan[struct{}]
}

func newFileTable(way string, loops int, files []*cachedFile) *fileTable {
	t := &fileTable{way: way, loops: loops, seed: maphash.MakeSeed()}
	parts := loops
	if strings.HasSuffix(way, "shared") {
		parts = cacheParts
	}
	for range parts {
		t.parts = append(t.parts, newCachePart())
	}
	for _, f := range files {
		if strings.HasSuffix(way, "per-loop") {
			for _, part := range t.parts {
				part.add(f)
			}
			continue
		}
		t.parts[t.partOf(f.path)].add(f)
	}
	return t
}

func (t *fileTable) partOf(path string) int {
	return int(maphash.String(t.seed, path) % uint64(len(t.parts)))
}

// serve starts what answers requests from other loops.
func (t *fileTable) serve(rt *task.Runtime) {
	for i := range t.loops {
		asked := task.NewChan[*cacheRequest](1024)
		t.asked = append(t.asked, asked)
		must(rt.Spawn(task.Options{Name: "owner", OnLoop: func(int) int { return i }}, func() {
			for r, err := asked.Recv(); err == nil; r, err = asked.Recv() {
				r.body = t.parts[i].find(r.path)
				if r.done.Send(struct{}{}) != nil {
					return
				}
			}
		}))
	}
}

// get finds a file for a task of the given loop; nil if there is none, or if its owner has ended and may still have r.
func (t *fileTable) get(loop int, r *cacheRequest) []byte {
	switch t.way {
	case "capriccio-shared":
		part := t.parts[t.partOf(r.path)]
		if !part.mu.TryLock() {
			part.mu.Lock()
			part.taken++
		}
		defer part.mu.Unlock()
		return part.find(r.path)
	case "capriccio-per-loop":
		return t.parts[loop].find(r.path)
	}
	owner := t.partOf(r.path)
	if owner == loop {
		return t.parts[loop].find(r.path)
	}
	if t.asked[owner].Send(r) != nil {
		return nil
	}
	if _, err := r.done.Recv(); err != nil {
		return nil
	}
	return r.body
}

// measureCache has the tasks of j.x loops ask for files by Zipf's law.
func measureCache(way string) metricFunc {
	return func(j job) {
		rt := must(capriccio.New(capriccio.WithLoops(j.x), capriccio.WithLogger(slog.New(slog.DiscardHandler))))
		defer rt.Close()
		files := make([]*cachedFile, cacheFiles)
		for i := range files {
			files[i] = &cachedFile{fmt.Sprintf("/site/folder%d/page%d.html", i/36, i), make([]byte, cacheFileBytes)}
		}
		t := newFileTable(way, j.x, files)
		if way == "capriccio-partitioned" {
			t.serve(rt)
		}
		var requests, missed atomic.Int64
		var stop atomic.Bool
		for i := range cacheTasks * j.x {
			loop := i % j.x
			must(rt.Spawn(task.Options{Name: "client", OnLoop: func(int) int { return loop }}, func() {
				zipf := rand.NewZipf(rand.New(rand.NewPCG(1, uint64(i))), 1.1, 1, cacheFiles-1)
				r := &cacheRequest{done: task.NewChan[struct{}](1)}
				for !stop.Load() {
					for range cacheAsked {
						r.path = files[zipf.Uint64()].path
						body := t.get(loop, r)
						if len(body) != cacheFileBytes {
							missed.Add(1)
							return
						}
						sum := byte(0)
						for at := 0; at < len(body); at += 64 {
							sum += body[at]
						}
						if sum != 0 {
							missed.Add(1)
						}
					}
					requests.Add(cacheAsked)
					task.Yield()
				}
			}))
		}
		time.Sleep(j.duration / 4) // until all is warm
		n, used, before := requests.Load(), processTime(), (*engine.Runtime)(rt).Graph().Snapshot()
		time.Sleep(j.duration)
		for requests.Load() == n { // a stalled machine
			time.Sleep(time.Millisecond)
		}
		n, used = requests.Load()-n, processTime()-used
		crossed := must(bgraph.Diff(before, (*engine.Runtime)(rt).Graph().Snapshot()))
		stop.Store(true)
		if missed.Load() > 0 || n == 0 {
			check(fmt.Errorf("%d of %d requests did not find their file", missed.Load(), n))
		}
		t.emit(j, float64(n), float64(used.Nanoseconds()), crossed)
	}
}

func (t *fileTable) emit(j job, requests, used float64, s *bgraph.Snapshot) {
	j.emit("per-request", "ns", used/requests)
	var wakes float64
	for _, c := range s.Crossings {
		if c.FromLoop >= 0 {
			wakes += float64(c.Count)
		}
	}
	j.emit("crossings", "1", wakes/requests)
	if t.way != "capriccio-shared" {
		return
	}
	var taken uint64
	for _, part := range t.parts {
		part.mu.Lock()
		taken += part.taken
		part.mu.Unlock()
	}
	j.emit("taken", "%", 100*float64(taken)/requests)
}
