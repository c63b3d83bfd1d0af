package main

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/bench/internal/report"
	"github.com/capriccio-go/capriccio/internal/uring"
	"github.com/capriccio-go/capriccio/task"
	"golang.org/x/sys/unix"
)

// writeSystems are ways to make a number of writes.
var writeSystems = []string{"capriccio", "pwrite", "uring-each", "uring-batch"}

const writeFileBytes = 64 << 20

// makeWriteFile makes the file whose blocks are written, with all of its pages in memory.
func makeWriteFile(dir string) *os.File {
	f := must(os.Create(filepath.Join(dir, "writes")))
	block := make([]byte, 1<<20)
	for range writeFileBytes / len(block) {
		must(f.Write(block))
	}
	return f
}

// runWritesWorker measures cohorts of writes by one system.
func runWritesWorker(args []string, out io.Writer) {
	flags := flag.NewFlagSet("cohort-writes", flag.ExitOnError)
	dir := flags.String("dir", "", "folder for the file")
	system := flags.String("system", "pwrite", strings.Join(writeSystems, ", "))
	flags.Parse(args)
	measuring(map[string]metricFunc{"per-write": func(j job) {
		c := &writeCohort{n: j.x, file: makeWriteFile(*dir), flush: newFlusher()}
		switch *system {
		case "pwrite":
			c.measure(j, c.pwrite)
		case "uring-each", "uring-batch":
			c.ring = must(uring.CreateRing(64))
			c.measure(j, func() { c.submit(*system == "uring-batch") })
		case "capriccio":
			onOneLoop(func(j job) { c.measure(j, c.tasks) })(j)
		default:
			check(fmt.Errorf("-system=%q, want one of %s", *system, strings.Join(writeSystems, ", ")))
		}
	}})(flags.Args(), out)
}

// A writeCohort is a number of writes that are made together. All fields are private to the goroutine
// that measures.
type writeCohort struct {
	n     int
	file  *os.File
	async *aio.File
	flush *flusher
	ring  *uring.Ring
	at    []int64
}

// writeBlock is the data of each write. It is on the heap, as the kernel may read it after Submit has returned.
var writeBlock = new([diskBlock]byte)

// measure makes cohorts for as long as the job says, and emits the median.
func (c *writeCohort) measure(j job, write func()) {
	debug.SetGCPercent(-1)
	c.async = must(aio.OpenFile(c.file.Name(), os.O_WRONLY, 0))
	misses, _ := openCacheMisses() // which says 0 if there are no counters
	random := rand.New(rand.NewPCG(1, uint64(c.n)))
	var costs, missed []float64
	for began := time.Now(); len(costs) < 3 || time.Since(began) < j.duration; {
		c.at = c.at[:0]
		for range c.n {
			c.at = append(c.at, random.Int64N(writeFileBytes/diskBlock)*diskBlock)
		}
		c.flush.run(random)
		missedBefore, before := misses.read(), processTime()
		write()
		costs = append(costs, float64(processTime()-before)/float64(c.n))
		missed = append(missed, float64(misses.read()-missedBefore)/float64(c.n))
		runtime.GC() // outside of what is measured
	}
	j.emit("per-write", "ns", report.Median(costs))
	if misses.fd >= 0 {
		j.emit("misses-per-write", "1", report.Median(missed))
	}
}

func (c *writeCohort) pwrite() {
	for _, at := range c.at {
		must(unix.Pwrite(int(c.file.Fd()), writeBlock[:], at))
	}
}

// submit hands the writes to the ring, all at once or one by one, and waits for all.
func (c *writeCohort) submit(together bool) {
	for _, at := range c.at {
		sqe := c.ring.GetSQE()
		sqe.PrepareWrite(int(c.file.Fd()), uintptr(unsafe.Pointer(writeBlock)), diskBlock, uint64(at))
		if !together {
			must(c.ring.Submit())
		}
	}
	must(c.ring.SubmitAndWait(uint32(c.n)))
	for range c.at {
		cqe := must(c.ring.WaitCQE())
		if cqe.Res != diskBlock {
			check(fmt.Errorf("write by io_uring: result %d", cqe.Res))
		}
		c.ring.CQESeen(cqe)
	}
}

func (c *writeCohort) tasks() {
	var all task.WaitGroup
	all.Add(c.n)
	for _, at := range c.at {
		task.Go(func() {
			must(c.async.WriteAt(writeBlock[:], at))
			all.Done()
		})
	}
	all.Wait()
}

// A flusher gets what a program had in the processor's caches and predictors out of them.
type flusher struct {
	memory  []byte
	numbers []int
	pattern *regexp.Regexp
	sum     int // so that nothing is left out as useless
}

func newFlusher() *flusher {
	return &flusher{memory: make([]byte, 4*lastCacheBytes()), numbers: make([]int, 1<<14), pattern: regexp.MustCompile(`([0-9]+[1-4]){2,5}(7|89)`)}
}

func (f *flusher) run(random *rand.Rand) {
	const line = 64
	for i := range f.numbers {
		f.numbers[i] = random.Int()
	}
	text, err := json.Marshal(f.numbers)
	if err == nil {
		f.sum += len(f.pattern.FindAllIndex(text[:min(len(text), 1<<14)], -1))
	}
	slices.SortFunc(f.numbers, func(a, b int) int { return a - b })
	for i := 0; i < len(f.memory); i += line {
		f.memory[i]++
	}
	f.sum += f.numbers[0]
}

// lastCacheBytes is the size of the last level of the processor's cache, 32 MiB if nothing says.
func lastCacheBytes() int {
	size := 32 << 20
	for level := range 5 {
		data, err := os.ReadFile(filepath.Join("/sys/devices/system/cpu/cpu0/cache", "index"+strconv.Itoa(level), "size"))
		if err != nil {
			break
		}
		if n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(string(data)), "K")); err == nil {
			size = n << 10
		}
	}
	return size
}

// cacheMisses counts this thread's misses of the last level of the cache, where the machine has counters.
type cacheMisses struct{ fd int }

func openCacheMisses() (cacheMisses, error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CACHE_MISSES, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return cacheMisses{-1}, fmt.Errorf("this machine has no counter of cache misses: perf_event_open: %w", err)
	}
	return cacheMisses{fd}, nil
}

func (m cacheMisses) read() uint64 {
	var b [8]byte
	if n, err := unix.Read(m.fd, b[:]); err != nil || n != len(b) { // there may be no counter
		return 0
	}
	return binary.NativeEndian.Uint64(b[:])
}

func (m cacheMisses) close() {
	if m.fd >= 0 {
		unix.Close(m.fd)
	}
}
