package main

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// runCohortWrites is Figure 2 of the Cohort Scheduling paper: what a write costs as one of a cohort that
// runs after everything was flushed from the processor's caches.
func runCohortWrites(r *run) error {
	var contenders []contender
	for _, system := range writeSystems {
		c := onServerCore(system, r.self, workerCommand, "cohort-writes", "-dir", r.scratch, "-system", system)
		contenders = append(contenders, c)
	}
	r.measure(pointsAt("per-write", 1, 2, 4, 8, 16, 32, 64), contenders, time.Second)
	misses, err := openCacheMisses()
	if err != nil {
		r.skip("misses-per-write", err)
	}
	misses.close()
	r.note("x: writes of 4 KiB, at blocks of a file of %d MB drawn by lot, one after the other; its pages are in memory; processor time by the kernel's clock", writeFileBytes>>20)
	r.note("before each cohort the worker walks through four times the last cache, and runs other code: it sorts, searches and encodes what has been drawn by lot")
	r.note("pwrite: a system call each; uring-each: handed to an io_uring one by one; uring-batch: all of a cohort by one call; capriccio: a task for each, which are made, write and end")
	r.charts = []report.Chart{{Title: "Processor time of a write by size of its cohort", Metric: "per-write", XLabel: "writes", LogY: true}}
	return nil
}

// writeSystems are ways to make a number of writes.
var writeSystems = []string{"capriccio", "pwrite", "uring-each", "uring-batch"}

const writeFileBytes = 64 << 20

// makeWriteFile makes the file whose blocks are written, with all of its pages in memory.
func makeWriteFile(dir string) (f *os.File, err error) {
	if f, err = os.Create(filepath.Join(dir, "writes")); err != nil {
		return nil, err
	}
	block := make([]byte, 1<<20)
	for range writeFileBytes / len(block) {
		if _, err := f.Write(block); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}
