package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"golang.org/x/sys/unix"
)

// The files that the disk experiments read: blocks that begin with their number.
const (
	diskBlock      = 4 << 10
	diskLargeBytes = 1 << 30
	diskSmallBytes = 64 << 20 // fits into any page cache
	diskReaders    = 200      // of disk-cached, as in the paper
)

// Metrics of the workers; the first two are those of the experiments, in which the
// parameter is another one.
const (
	readsDirect   = "reads-direct"   // from the large file, by O_DIRECT
	readsMixed    = "reads-mixed"    // a share of them so, the others from the page cache
	readsBuffered = "reads-buffered" // a share from the large file, opened normally and not in the page cache
)

// diskFiles are the paths of the files.
type diskFiles struct{ small, large string }

// diskFiles returns the paths of the files in the run's folder.
func (r *run) diskFiles() diskFiles {
	return diskFiles{filepath.Join(r.scratch, "small"), filepath.Join(r.scratch, "large")}
}

// makeDiskFiles writes the files into the run's folder.
func (r *run) makeDiskFiles(withSmall bool) error {
	files := r.diskFiles()
	return r.prepare(writing(diskLargeBytes), func() error {
		fmt.Fprintf(r.progress, "writing %d MiB to %s\n", diskLargeBytes>>20, r.scratch)
		err := writeBlocks(r.ctx, files.large, diskLargeBytes)
		if err == nil && withSmall {
			err = writeBlocks(r.ctx, files.small, diskSmallBytes)
		}
		return err
	})
}

// writing is about how long it takes to write so much to the disk.
func writing(bytes int64) time.Duration { return time.Duration(bytes) * time.Second / 400e6 }

// writeBlocks makes a file whose blocks begin with their number; the rest is drawn by
// lot, so that no layer below finds them alike. It goes round the page cache.
func writeBlocks(ctx context.Context, path string, size int64) (err error) {
	const chunk = 4 << 20
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0o666)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%s: the file system knows no O_DIRECT; name a folder on another one in TMPDIR", filepath.Dir(path))
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	buffer, err := unix.Mmap(-1, 0, chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(buffer)) }()
	fillByLot(buffer, 7)
	for at := int64(0); at < size; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		part := buffer[:min(chunk, size-at)]
		for i := 0; i < len(part); i += diskBlock {
			binary.LittleEndian.PutUint64(part[i:], uint64(at+int64(i))/diskBlock)
		}
		n, err := unix.Pwrite(fd, part, at)
		if err != nil && err != unix.EINTR {
			return &os.PathError{Op: "write", Path: path, Err: err}
		}
		at += int64(max(n, 0)) / diskBlock * diskBlock
	}
	// Writes of the file system itself must not disturb the reads.
	return unix.Fsync(fd)
}

// fillByLot fills a buffer, whose length is a multiple of 8.
func fillByLot(buffer []byte, seed uint64) {
	for i, random := 0, newRNG(seed); i < len(buffer); i += 8 {
		random = random*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(buffer[i:], uint64(random))
	}
}

// uncache drops a file's clean pages from the page cache (posix_fadvise(2)).
func uncache(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return &os.PathError{Op: "fadvise", Path: path, Err: err}
	}
	return nil
}

// cache reads a file, so that it is in the page cache.
func cache(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}

// diskJob is what one sample of a disk experiment is about.
type diskJob struct {
	metric  string
	readers int
	misses  int // per cent of the reads that go to the disk
}

// diskJobAt reports what to do at a point of disk-direct or disk-cached.
func diskJobAt(p point) diskJob {
	switch p.metric {
	case readsDirect:
		return diskJob{p.metric, int(p.x), 100}
	default:
		return diskJob{p.metric, diskReaders, int(p.x)}
	}
}

// diskResults names the metrics of the results: the main metric of either experiment is
// "reads", and what belongs to the buffered reads is told apart by a suffix.
func diskResults(samples []sample, p point) []sample {
	for i := range samples {
		if samples[i].metric == p.metric {
			samples[i].metric = "reads"
		}
		if p.metric == readsBuffered {
			samples[i].metric += "-buffered"
		}
		samples[i].x = p.x
	}
	return samples
}

// diskContender is one that has read do a job.
func diskContender(system string, files diskFiles, read func(ctx context.Context, job diskJob, d time.Duration) ([]sample, error)) contender {
	return contender{system: system, sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
		job := diskJobAt(p)
		if err := prepareFiles(job, files); err != nil {
			return nil, err
		}
		samples, err := read(ctx, job, d)
		return diskResults(samples, p), err
	}}
}

// diskProgram is a command that reads by itself: METRIC READERS MILLISECONDS MISSES SMALL LARGE.
func diskProgram(system string, files diskFiles, path string, args ...string) contender {
	return diskContender(system, files, func(ctx context.Context, job diskJob, d time.Duration) ([]sample, error) {
		return samplesOf(ctx, d, onCore(serverCore, nil, path, append(slices.Clone(args), job.metric, strconv.Itoa(job.readers),
			strconv.FormatInt(max(d.Milliseconds(), 1), 10), strconv.Itoa(job.misses), files.small, files.large)...))
	})
}

// prepareFiles puts the page cache into the state in which a sample begins.
func prepareFiles(job diskJob, files diskFiles) error {
	if job.metric != readsDirect {
		if err := cache(files.small); err != nil {
			return err
		}
	}
	if job.metric == readsBuffered {
		return uncache(files.large)
	}
	return nil
}

// diskContenders are those of both experiments.
func (r *run) diskContenders(files diskFiles) []contender {
	contenders := []contender{
		diskProgram("capriccio", files, r.self, workerCommand, "disk-capriccio"),
		diskProgram("goroutine", files, r.self, workerCommand, "disk-goroutine"),
	}
	if path := r.baseline("pthread", "pthread-disk"); path != "" {
		contenders = append(contenders, diskProgram("pthread", files, path))
	}
	if path, err := r.find("fio"); err != nil {
		r.skip("fio", err)
	} else {
		contenders = append(contenders, fioContender(path, files))
	}
	return contenders
}

// fioContender has fio(1) read through io_uring, as many reads at a time as the others
// have readers.
func fioContender(path string, files diskFiles) contender {
	fio := diskContender("fio", files, func(ctx context.Context, job diskJob, d time.Duration) ([]sample, error) {
		lines, err := linesOf(ctx, d, proc.Command{Path: path, Core: serverCore, Args: fioArgs(job, files, d)})
		if err != nil {
			return nil, err
		}
		return fioSamples(job.metric, strings.Join(lines, "\n"))
	})
	fio.lacks = without("one job does not mix files", func(p point) bool {
		job := diskJobAt(p)
		return job.metric == readsBuffered || job.metric == readsMixed && job.misses%100 != 0
	})
	return fio
}

func fioArgs(job diskJob, files diskFiles, d time.Duration) []string {
	file, direct := files.large, 1
	if job.misses == 0 {
		file, direct = files.small, 0
	}
	warm := d / 5
	return []string{
		"--name=reads", "--filename=" + file, "--rw=randread", "--bs=4k", "--ioengine=io_uring", "--thread",
		fmt.Sprintf("--direct=%d", direct), fmt.Sprintf("--iodepth=%d", job.readers), "--allow_file_create=0",
		"--time_based", fmt.Sprintf("--runtime=%dms", max((d-warm).Milliseconds(), 1)), fmt.Sprintf("--ramp_time=%dms", warm.Milliseconds()),
		"--norandommap", "--randrepeat=0", "--invalidate=0", "--fadvise_hint=random", "--gtod_reduce=1", "--output-format=json",
	}
}

// fioSamples reads what fio says of its one job. It may print remarks before.
func fioSamples(metric, out string) ([]sample, error) {
	var result struct {
		Jobs []struct {
			Error int     `json:"error"`
			User  float64 `json:"usr_cpu"` // per cent
			Sys   float64 `json:"sys_cpu"`
			Read  struct {
				IOPS    float64 `json:"iops"`
				Runtime float64 `json:"runtime"` // ms
			} `json:"read"`
		} `json:"jobs"`
	}
	begin := max(strings.Index(out, "{"), 0)
	if err := json.Unmarshal([]byte(out[begin:]), &result); err != nil {
		return nil, fmt.Errorf("fio printed no result: %w", err)
	}
	if len(result.Jobs) != 1 || result.Jobs[0].Error != 0 || result.Jobs[0].Read.IOPS <= 0 {
		return nil, fmt.Errorf("fio says %+v", result.Jobs)
	}
	job := result.Jobs[0]
	return []sample{
		{metric, "reads/s", 0, job.Read.IOPS},
		{"cpu-per-read", "ns", 0, (job.User + job.Sys) / 100 * 1e9 / job.Read.IOPS},
	}, nil
}
