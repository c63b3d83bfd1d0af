package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"golang.org/x/sys/unix"
)

// diskWorker makes a worker that reads: METRIC READERS MILLISECONDS MISSES SMALL LARGE.
func diskWorker(measure func(job, *diskReads)) func([]string, io.Writer) {
	return func(args []string, out io.Writer) {
		if len(args) != 6 {
			check(fmt.Errorf("arguments are %q, want METRIC READERS MILLISECONDS MISSES SMALL LARGE", args))
		}
		j := must(parseJob(args[:4]))
		j.emit = emitAt(out, j.x)
		reads := &diskReads{small: args[4], large: args[5], misses: j.work}
		switch {
		case j.work > 100:
			check(fmt.Errorf("%d %% of misses", j.work))
		case j.metric != readsDirect && j.metric != readsMixed && j.metric != readsBuffered:
			check(fmt.Errorf("unknown metric %q", j.metric))
		case j.metric == readsDirect:
			reads.misses = 100
		}
		reads.once = j.metric == readsBuffered
		// Page by page: what O_DIRECT asks for.
		reads.buffers = must(unix.Mmap(-1, 0, j.x*diskBlock, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE))
		warm()
		measure(j, reads)
	}
}

// diskFile is what readers read from.
type diskFile struct {
	io.ReaderAt
	blocks int
}

// diskReads is what the readers share.
type diskReads struct {
	small, large string // paths
	misses       int    // per cent
	once         bool   // no block of the large file twice
	buffers      []byte // a block for each reader
	hit, miss    diskFile
	fresh        atomic.Int64 // blocks of the large file that have been read, with once
	done         atomic.Int64
	stop         atomic.Bool
	io           *os.File // proc_pid_io(5)
	ioText       [512]byte
}

// looked is how many reads a reader makes between two at whose result it looks: whether
// it is the block that was asked for.
const looked = 64

// read reads blocks until it is told to stop.
func (d *diskReads) read(me int) {
	l, buffer := newRNG(uint64(me)+1), d.buffers[me*diskBlock:][:diskBlock:diskBlock]
	for turn := 0; !d.stop.Load(); turn++ {
		f, block := &d.hit, 0
		if d.misses == 100 || d.misses > 0 && l.below(100) < d.misses {
			f = &d.miss
		}
		if f == &d.miss && d.once {
			i := int(d.fresh.Add(1))
			if i > f.blocks {
				d.stop.Store(true)
				return
			}
			block = scattered(i, f.blocks)
		} else {
			block = l.below(f.blocks)
		}
		n, err := f.ReadAt(buffer, int64(block)*diskBlock)
		if d.stop.Load() { // the runtime may be at its end
			return
		}
		if n != diskBlock {
			check(fmt.Errorf("block %d: read %d bytes: %w", block, n, err))
		}
		if got := binary.LittleEndian.Uint64(buffer); turn%looked == 0 && got != uint64(block) {
			check(fmt.Errorf("block %d begins with %d", block, got))
		}
		d.done.Add(1)
	}
}

// scattered maps the numbers up to n, a power of two, to each other, neighbours far apart.
func scattered(i, n int) int { return (i * 0x9e3779b1) & (n - 1) }

// measure reads for the job's time, after a while. It ends earlier if the blocks run out.
func (d *diskReads) measure(j job, s *threads) error {
	if d.miss.blocks&(d.miss.blocks-1) != 0 {
		return fmt.Errorf("%s has %d blocks, want a power of two", d.large, d.miss.blocks)
	}
	d.io = must(os.Open("/proc/self/io"))
	start := d.look()
	for me := range j.x {
		s.spawn(func() { d.read(me) })
	}
	// On a machine that has stalled, a short time may pass without a single read.
	wait := func(for_ time.Duration) {
		const step, patience = 5 * time.Millisecond, 20 * time.Second
		before, began := d.done.Load(), time.Now()
		for !d.stop.Load() {
			waited := time.Since(began)
			if waited >= for_ && d.done.Load() != before || waited >= for_+patience {
				return
			}
			s.sleep(min(step, max(for_-waited, step/10)))
		}
	}
	wait(j.duration / 5)
	if !d.stop.Load() { // else all there is has been read already, and that is what counts
		start = d.look()
	}
	wait(j.duration - j.duration/5)
	end := d.look()
	d.stop.Store(true)
	reads := float64(end.done - start.done)
	if reads == 0 {
		return errors.New("nothing was read")
	}
	j.emit(j.metric, "reads/s", reads/end.at.Sub(start.at).Seconds())
	j.emit("cpu-per-read", "ns", float64(end.cpu-start.cpu)/reads)
	if j.metric != readsDirect {
		j.emit("missed", "%", 100*float64(end.fetched-start.fetched)/diskBlock/reads)
	}
	return nil
}

// diskLook is what has been done so far.
type diskLook struct {
	at      time.Time
	cpu     time.Duration
	done    int64
	fetched int64 // bytes that the kernel read from the disk for this process
}

// look makes no call at which the scheduler could let others run between its parts: with
// 200 of them that takes longer than the whole measurement.
func (d *diskReads) look() (l diskLook) {
	n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, d.io.Fd(), uintptr(unsafe.Pointer(&d.ioText[0])), uintptr(len(d.ioText)), 0, 0, 0)
	l.done, l.at = d.done.Load(), time.Now()
	var used unix.Timespec
	_, _, failed := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_PROCESS_CPUTIME_ID, uintptr(unsafe.Pointer(&used)), 0)
	if errno != 0 || failed != 0 {
		check(fmt.Errorf("read /proc/self/io: %w, clock_gettime: %w", errno, failed))
	}
	l.cpu = time.Duration(used.Nano())
	l.fetched = must(proc.FetchedIn(d.ioText[:n]))
	return l
}

// openDisk opens the files by open, and tells the kernel that blocks of the large one are drawn by lot, so that
// it reads no others. The small one is not opened if nothing is to be read from it.
func openDisk[F interface {
	io.ReaderAt
	syscall.Conn
	Stat() (fs.FileInfo, error)
}](d *diskReads, open func(path string, flags int, mode fs.FileMode) (F, error)) {
	file := func(path string, flags int) (F, diskFile) {
		f := must(open(path, flags, 0))
		return f, diskFile{f, int(must(f.Stat()).Size() / diskBlock)}
	}
	var large F
	large, d.miss = file(d.large, choose(d.once, os.O_RDONLY, os.O_RDONLY|unix.O_DIRECT))
	check(onFD(must(large.SyscallConn()), func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM) }))
	if d.misses < 100 {
		_, d.hit = file(d.small, os.O_RDONLY)
	}
}

// goDisk reads with goroutines and os.File.
func goDisk(j job, d *diskReads) {
	openDisk(d, os.OpenFile)
	check(d.measure(j, goroutines))
}

// taskDisk reads with tasks and package aio.
func taskDisk(j job, d *diskReads) {
	onOneLoop(func(j job) {
		openDisk(d, aio.OpenFile)
		check(d.measure(j, tasks))
	})(j)
}
