//go:build linux

// Package probe reads how much of the machine's and the process's resources is in use,
// and how much may be: memory, the garbage collector's share of the
// processor, memory pressure and major page faults.
//
// It is made for a program that has to go on whatever the machine looks like. A source
// that is missing, unreadable or not understood is reported once and left out from then
// on. Files are opened once, so that it works when no descriptor is left.
//
// It knows files and numbers only; what follows from them is decided by others. No call
// parks; a Read makes a handful of system calls.
package probe

import (
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The names of the Readings.
const (
	// Heap is what of the Go heap is reachable, in bytes, and how much of it there should
	// be so that the garbage collector does not have to work too hard.
	Heap = "heap"
	// Memory is what the process's container uses, in bytes, without file pages that can
	// be dropped; or what the machine uses, if no container limits it.
	Memory = "memory"
	// AddressSpace is what the process has mapped, in bytes, if there is a limit (RLIMIT_AS, ulimit -v):
	// at the limit every allocation fails, and a Go program ends.
	AddressSpace = "address space"
	// GC is the garbage collector's share of the processors, 0 to 1.
	GC = "gc"
	// Pressure is the share of time in which some thread of the container, or of the
	// machine, waited for memory, 0 to 1 (the kernel's PSI).
	Pressure = "memory pressure"
	// Faults is how many times a second the process waited for a page to be read from
	// disk.
	Faults = "major faults"
)

// How much of a sign of thrashing is too much. A collector that uses a fifth of the processors or a little more is
// about to take a quarter, which the Go runtime reserves for it; a tenth of the time spent waiting for memory is what
// the kernel's own users of PSI take as the point to act; 200 faults a second keep a fast disk busy for a tenth of a
// second.
const (
	MuchGC       = 0.22 // averaged over GCOver
	MuchPressure = 0.10
	MuchFaults   = 200.0
)

// A Reading is what is known of one resource now.
type Reading struct {
	Name  string
	Value float64
	Limit float64
	Sign  bool // not something that tasks take, but a sign of thrashing
	Old   bool // Value is what was read before; Limit is new
}

// Config configures a Probe. The zero value is that of a real machine.
type Config struct {
	// Root is the folder that /proc and /sys are in. "/".
	Root string
	// Report is called once for each source that is left out; nil: left-out sources are not reported.
	Report func(source string, err error)
	// Runtime reads the metrics of the Go runtime, AddressSpace the limit on mapped bytes,
	// math.MaxUint64 being none. nil: those of this process.
	Runtime      func() Runtime
	AddressSpace func() (limit uint64, err error)
}

// A Probe reads the resources of this process. It may be used by one goroutine at a time.
type Probe struct {
	cfg      Config
	readings []Reading

	heap    heapReader
	gc      gcReader
	memory  memoryReader
	stall   rate
	faults  rate
	mapped  float64 // the limit of AddressSpace, in bytes
	sources map[string]*source
}

// New looks for the sources there are.
func New(cfg Config) *Probe {
	if cfg.Root == "" {
		cfg.Root = "/"
	}
	if cfg.Report == nil {
		cfg.Report = func(string, error) {}
	}
	if cfg.Runtime == nil {
		cfg.Runtime = newRuntimeReader().read
	}
	if cfg.AddressSpace == nil {
		cfg.AddressSpace = func() (uint64, error) { return softLimit(unix.RLIMIT_AS) }
	}
	p := &Probe{cfg: cfg, sources: map[string]*source{}}
	p.memory.find(p)
	p.open(Pressure, append(p.memory.pressure, "proc/pressure/memory")...)
	p.open(Faults, "proc/self/stat")
	if limit, err := cfg.AddressSpace(); err != nil {
		cfg.Report(AddressSpace, err)
	} else if limit < noLimit {
		p.mapped = float64(limit)
		p.open(AddressSpace, "proc/self/statm")
	}
	return p
}

// Close closes the files.
func (p *Probe) Close() {
	for _, s := range p.sources {
		s.close()
	}
}

// Read returns what is known now; what has not changed since the last Read, because it
// cannot be known so soon, is missing, and so is memory that can't have become scarce since
// it was last read, at most 100 ms ago. now is from any zero, and must not go back. The
// result is valid until the next Read.
func (p *Probe) Read(now time.Duration) []Reading {
	p.readings = p.readings[:0]
	r := p.cfg.Runtime()
	if now >= p.memory.due {
		p.memory.read(p, now)
		p.readSigns(now)
	}
	p.heap.read(p, now, r, p.memory.most)
	p.gc.read(p, r)
	if pages, ok := p.number(AddressSpace, parseMapped); ok {
		p.add(Reading{Name: AddressSpace, Value: pages * float64(os.Getpagesize()), Limit: p.mapped})
	}
	return p.readings
}

// readSigns reads the signs of too little memory.
func (p *Probe) readSigns(now time.Duration) {
	if stalled, ok := p.number(Pressure, parsePressure); ok {
		if share, ok := p.stall.per(now, stalled/1e6); ok {
			p.add(Reading{Name: Pressure, Value: share, Limit: MuchPressure, Sign: true})
		}
	}
	if faults, ok := p.number(Faults, parseMajorFaults); ok {
		if perSecond, ok := p.faults.per(now, faults); ok {
			p.add(Reading{Name: Faults, Value: perSecond, Limit: MuchFaults, Sign: true})
		}
	}
}

// ContainerLimit is how much memory, in bytes, the process's control groups let it have, as
// of the last Read; 0 if they let it have all there is, or nothing is known.
func (p *Probe) ContainerLimit() float64 {
	if math.IsInf(p.memory.container, 1) {
		return 0
	}
	return p.memory.container
}

func (p *Probe) add(r Reading) { p.readings = append(p.readings, r) }

// A source is a file that is read again and again.
type source struct {
	file *os.File // nil: left out
	fd   int      // of file: asking for it makes system calls
	buf  []byte
}

// open makes the first of these files that can be read the source with the given name.
func (p *Probe) open(name string, paths ...string) bool {
	s := &source{}
	var first error
	for _, path := range paths {
		f, err := os.Open(filepath.Join(p.cfg.Root, path))
		if err == nil {
			s.file, s.fd, s.buf = f, int(f.Fd()), make([]byte, 4096)
			if _, err = s.read(); err == nil {
				p.sources[name] = s
				return true
			}
			s.close()
		}
		if first == nil {
			first = err
		}
	}
	p.cfg.Report(name, first)
	return false
}

// read returns what is in the file, at most as much as fits into buf. One call gets all of it: these files are made
// when they are read (proc(5)), and asking whether there is more would have them made again.
func (s *source) read() ([]byte, error) {
	for {
		n, err := unix.Pread(s.fd, s.buf, 0)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: s.file.Name(), Err: err}
		case n == 0:
			return nil, io.EOF
		}
		return s.buf[:n], nil
	}
}

func (s *source) close() {
	if s.file != nil {
		_ = s.file.Close() // it was only read
		s.file = nil
	}
}

// number reads a source. ok is false if it is left out, also from now on.
func (p *Probe) number(name string, parse func([]byte) (float64, error)) (v float64, ok bool) {
	s := p.sources[name]
	if s == nil || s.file == nil {
		return 0, false
	}
	text, err := s.read()
	if err == nil {
		v, err = parse(text)
	}
	if err != nil {
		s.close()
		p.cfg.Report(name, err)
		return 0, false
	}
	return v, true
}

// A rate makes a rate of a count.
type rate struct {
	begun bool
	at    time.Duration
	count float64
}

// per is how much has been counted per second since the last call. ok is false the first
// time, if no time has gone by, and if the count has become less.
func (r *rate) per(now time.Duration, count float64) (v float64, ok bool) {
	if dt := (now - r.at).Seconds(); r.begun && dt > 0 && count >= r.count {
		v, ok = (count-r.count)/dt, true
	} else if r.begun && dt <= 0 {
		return 0, false
	}
	r.begun, r.at, r.count = true, now, count
	return v, ok
}
