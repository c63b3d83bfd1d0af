package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// The experiments whose systems are processes that measure themselves, on the server core.

var primitivesExperiment = experiment{
	name: "primitives",
	doc:  "create and finish, yield, mutex, channel and condition hand-off (Table 1)",
	parts: []part{{
		points: slices.Concat(pointsAt("create-finish", 1, 1000), pointsAt("mutex", 1),
			pointsAt("yield", 2, 1000, 10_000), pointsAt("chan", 2, 1000, 10_000), pointsAt("cond", 2, 1000, 10_000)),
		systems: func(r *run) []contender {
			return sittingOut(slices.Concat(r.goContenders(bareSystem), r.workersNamed(holdingSystem), r.baselines("pthread", "state-threads")),
				without("has no channels; cond is its hand-off", func(p point) bool { return p.metric == "chan" }), "pthread", "state-threads")
		},
		length: 500 * time.Millisecond,
	}},
	notes: []string{
		fmt.Sprintf("everything runs on core %d; x is the tasks that take turns, for create-finish the tasks made before waiting for them all", serverCore),
		"chan and cond hand a token round a ring of x tasks, by unbuffered channels or by one condition for each",
		holdingSystem + ": nothing is detached (WithDetaching): between it and capriccio lies what that costs those that never wait natively, but for a store at each entry, which both have",
		"state-threads has no yield: its figure is waking the longest waiting thread and waiting behind the others",
	},
	charts: []report.Chart{
		{Title: "Yield", Metric: "yield", XLabel: "ready tasks", LogY: true},
		{Title: "Hand-off by condition", Metric: "cond", XLabel: "tasks", LogY: true},
		{Title: "Hand-off by channel", Metric: "chan", XLabel: "tasks"},
	},
}

// Points go by powers of four without work, but for the 1,000 pairs that the project has a goal for; with work, which
// makes the curves flat, and in a quick run there are fewer.
var pairsExperiment = experiment{
	name: "producer-consumer",
	doc:  "pairs sharing a bounded buffer with a mutex and conditions (Figure 1)",
	parts: []part{{
		points: slices.Concat(pointsAt("ops", 1, 4, 16, 64, 256, 1000, 4096, 16_384), pairsWithWork),
		quick:  slices.Concat(pointsAt("ops", 1, 16, 256, 1000, 4096, 16_384), pairsWithWork),
		systems: func(r *run) []contender {
			all := append(r.goContenders(bareSystem), r.baselines("pthread", "state-threads")...)
			sittingOut(all, above(choose(r.quick, 1000.0, 4096), "two kernel threads a pair"), "pthread")
			return sittingOut(all, above(choose(r.quick, 256.0, 1000), "a wake-up searches a queue that grows with the threads"), "state-threads")
		},
		length: 500 * time.Millisecond,
	}},
	notes: []string{
		fmt.Sprintf("x is the pairs: as many producers as consumers, one buffer of %d slots, one mutex and two conditions, on core %d", bufferSlots, serverCore),
		fmt.Sprintf("in metrics named *%s* a consumer computes for so long on each message, outside the mutex", workInfix),
		fmt.Sprintf("a producer fills the whole buffer before it waits, so a switch serves up to %d messages; %s has a buffer of one slot, where each message takes two switches", bufferSlots, oneSlotMetric),
	},
	charts: []report.Chart{
		{Title: "Messages, no work", Metric: "ops", XLabel: "producer-consumer pairs", LogY: true},
		{Title: "Messages, 100 ns of work each", Metric: "ops-work-100ns", XLabel: "producer-consumer pairs"},
		{Title: "Messages, 1,000 ns of work each", Metric: "ops-work-1000ns", XLabel: "producer-consumer pairs"},
	},
}

var pairsWithWork = slices.Concat(pairsWorking(100), pairsWorking(1000), pointsAt(oneSlotMetric, 16, 1000, 16_384))

func pairsWorking(ns int) []point {
	points := pointsAt(fmt.Sprintf("ops%s%dns", workInfix, ns), 1, 16, 1000, 16_384)
	for i := range points {
		points[i].work = ns
	}
	return points
}

var pipesExperiment = experiment{
	name: "pipes",
	doc:  "tokens passed among pipes (Figure 2)",
	parts: []part{{
		points: pointsAt("tokens", 4, 16, 64, 256, 1024, 4096, 8192, 16_384),
		systems: func(r *run) []contender {
			return slices.Concat(r.goContenders(bareSystem), r.baselines("epoll-c"), r.workersNamed("epoll-go"))
		},
		length: time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x is the pipes; tokens of %d bytes, a quarter as many as pipes and at most 128; a task for each pipe, on core %d", tokenBytes, serverCore),
		"each token goes to a pipe drawn by lot: to the neighbour, tokens gather in bunches that need no waiting, at another pace in each system",
		"epoll-go is epoll-c in Go, by raw system calls: what is between the two is not the tasks' doing",
		"a pipe has two descriptors where they fit below the limit, otherwise one that reads and writes",
	},
	charts: []report.Chart{{Title: "Tokens passed among pipes", Metric: "tokens", XLabel: "pipes"}},
}

// roomPerTask is what a parked task is given room for when there is a doubt about memory.
const roomPerTask = 6 << 10

var parkedExperiment = experiment{
	name: "parked",
	doc:  "memory and time of up to a million parked tasks",
	parts: []part{{
		points: pointsAt("parked", 100_000, 1_000_000),
		systems: func(r *run) []contender {
			free, err := proc.Available()
			fits := func(p point) bool { return r.planning() || err != nil || p.x*roomPerTask < float64(free) }
			return slower(time.Second, sittingOut(r.goContenders(), without(fmt.Sprintf("%d MiB of memory are free", free>>20),
				func(p point) bool { return !fits(p) }), "capriccio", "goroutine"))
		},
		length: time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x tasks are made and each parks; then all are woken and finish; on core %d", serverCore),
		"bytes-per-task is what the process grew by; park is the time per task until all were parked, made-and-finished until all had finished",
	},
	charts: []report.Chart{
		{Title: "Memory per parked task", Metric: "bytes-per-task", XLabel: "tasks", Bars: true},
		{Title: "Time per task, made, parked and finished", Metric: "made-and-finished", XLabel: "tasks", Bars: true},
	},
}

// The staged file cache of the Cohort Scheduling paper, section 5.1 and Figure 5, at its best: all files are in memory.
// There each processor has a table of its own, and a request goes to the one that has its file; Knot has a table for
// all, in parts with a lock each.
var cohortCacheExperiment = experiment{
	name: "cohort-cache",
	doc:  "a file cache with a part for each loop, beside one for all (Cohort Scheduling, Figure 5)",
	parts: []part{{
		points: pointsAt("per-request", 1, 2),
		systems: func(r *run) (all []contender) {
			for _, way := range cacheWays {
				all = append(all, onBothCores(way, r.self))
			}
			return all
		},
		length: 2 * time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x: loops. per-request: the process's CPU time, of which a hit itself is to find one of %d files by its path, drawn by Zipf's law, to move it to the front of a list, and to read its %d KiB; %d tasks a loop ask", cacheFiles, cacheFileBytes>>10, cacheTasks),
		fmt.Sprintf("shared: %d parts with a lock each, as Knot has; partitioned: a part for each loop, a task of which answers those of others, without a lock; per-loop: each loop has all files", cacheParts),
		"taken: of 100 locks those that another loop had; crossings: wakes from loop to loop for a request",
	},
	charts: []report.Chart{{Title: "CPU time of a hit in a file cache", Metric: "per-request", XLabel: "loops", Bars: true}},
}

// Figure 2 of the Cohort Scheduling paper: what a write costs as one of a cohort that runs after everything was flushed
// from the processor's caches.
var cohortWritesExperiment = experiment{
	name: "cohort-writes",
	doc:  "the cost of a write in a cohort of writes, with flushed caches (Cohort Scheduling, Figure 2)",
	parts: []part{{
		points: pointsAt("per-write", 1, 2, 4, 8, 16, 32, 64),
		systems: func(r *run) (all []contender) {
			misses, err := openCacheMisses()
			if err != nil {
				r.skip("misses-per-write", err)
			}
			misses.close()
			for _, system := range writeSystems {
				all = append(all, onServerCore(system, r.self, workerCommand, "cohort-writes", "-dir", r.scratch, "-system", system))
			}
			return all
		},
		length: time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x: writes of 4 KiB, at blocks of a file of %d MB drawn by lot, one after the other; its pages are in memory; processor time by the kernel's clock", writeFileBytes>>20),
		"before each cohort the worker walks through four times the last cache, and runs other code: it sorts, searches and encodes what has been drawn by lot",
		"pwrite: a system call each; uring-each: handed to an io_uring one by one; uring-batch: all of a cohort by one call; capriccio: a task for each, which are made, write and end",
	},
	charts: []report.Chart{{Title: "Processor time of a write by size of its cohort", Metric: "per-write", XLabel: "writes", LogY: true}},
}

// Figure 3 of the Capriccio paper with a file that does not fit into the disk's own memory: random reads that go to the disk.
var diskDirectExperiment = experiment{
	name:    "disk-direct",
	doc:     "random reads of 4 KiB from the disk by 1 to 256 readers (Figure 3)",
	prepare: func(r *run, _ *experiment) error { return r.makeDiskFiles(false) },
	parts: []part{{
		points:  pointsAt(readsDirect, 1, 2, 4, 8, 16, 32, 64, 128, 256),
		quick:   pointsAt(readsDirect, 1, 4, 16, 64, 256),
		systems: func(r *run) []contender { return r.diskContenders(r.diskFiles()) },
		length:  time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x is the readers; each reads blocks of 4 KiB drawn by lot from a file of %d MiB opened with O_DIRECT; one core", diskLargeBytes>>20),
		"cpu-per-read is the process's CPU time; interrupts are in nobody's",
		"fio is one thread with this many reads under way (io_uring, iodepth=x), that takes no times and looks at no block",
	},
	charts: []report.Chart{
		{Title: "Random reads of 4 KiB from the disk", Metric: "reads", XLabel: "readers"},
		{Title: "CPU time per read", Metric: "cpu-per-read", XLabel: "readers", LogY: true},
	},
}

var diskCachedExperiment = experiment{
	name:    "disk-cached",
	doc:     "200 readers of which a share misses the page cache (Figure 4)",
	prepare: func(r *run, _ *experiment) error { return r.makeDiskFiles(true) },
	parts: []part{{
		points:  append(pointsAt(readsMixed, 0, 1, 2, 5, 10, 50, 100), pointsAt(readsBuffered, 1, 10, 100)...),
		quick:   append(pointsAt(readsMixed, 0, 1, 5, 10, 50, 100), pointsAt(readsBuffered, 1, 10, 100)...),
		systems: func(r *run) []contender { return r.diskContenders(r.diskFiles()) },
		length:  1200 * time.Millisecond,
	}},
	notes: []string{
		fmt.Sprintf("x is the miss rate in per cent; %d readers of blocks of 4 KiB drawn by lot; one core", diskReaders),
		fmt.Sprintf("reads: hits are reads from a file of %d MiB in the page cache, misses from one of %d MiB opened with O_DIRECT, as in the paper", diskSmallBytes>>20, diskLargeBytes>>20),
		"reads-buffered: misses are reads from the large file opened normally, dropped from the page cache before and each block read once, so that nobody knows beforehand what will miss",
		"missed is the share of the reads that the kernel fetched from the disk",
	},
	charts: []report.Chart{
		{Title: "Reads by miss rate, misses by O_DIRECT", Metric: "reads", XLabel: "misses, %", LogY: true},
		{Title: "Reads by miss rate, misses in the page cache", Metric: "reads-buffered", XLabel: "misses, %", LogY: true},
	},
}

// The program of section 3.5 of the Capriccio paper: many tasks that call a function that needs much stack, and yield
// after each call.
var bigStackExperiment = experiment{
	name: "bigstack",
	doc:  "up to 100,000 tasks that need 1 MB of stack now and then (section 3.5)",
	parts: []part{{
		points:  pointsAt("bigstack", 800, 1600, 3200, 6400, 12_500, 25_000, 50_000, 100_000),
		quick:   pointsAt("bigstack", 800, 3200, 12_500, 100_000),
		systems: func(r *run) []contender { return []contender{r.bigContender("capriccio"), r.bigContender("goroutine")} },
		length:  time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x tasks; each makes %d calls of a function with a frame of %d KiB of which it touches every page, and yields after each; one core", bigCalls, bigFrameBytes>>10),
		"seconds: from making the first task to the end of the last; rss-mb: the most that the process had resident",
		fmt.Sprintf("a process of more than %d MiB resident is killed (killed: 1, and no seconds); with more tasks than that it is not tried again", bigCap>>20),
	},
	charts: []report.Chart{
		{Title: "Tasks with a frame of 1 MB: time", Metric: "seconds", XLabel: "tasks", LogY: true},
		{Title: "Tasks with a frame of 1 MB: resident memory", Metric: "rss-mb", XLabel: "tasks", LogY: true},
	},
}

var stackCostExperiment = experiment{
	name: "stack-cost",
	doc:  "the cost of a checkpoint with room and without, and of parking beyond it",
	parts: []part{{
		points: slices.Concat(pointsAt("room", 1), pointsAt("call-with-room", 1), pointsAt("link-call-unlink", 16<<10, 32<<10, 256<<10),
			pointsAt("yield", 2, 1000), pointsAt("yield-beyond", 2, 1000)),
		systems: func(r *run) []contender {
			return sittingOut([]contender{
				onServerCore("capriccio", r.self, workerCommand, "stack-capriccio"), onServerCore("goroutine", r.self, workerCommand, "stack-goroutine"),
			}, without("the compiler has put the check into each function", func(p point) bool { return strings.HasSuffix(p.metric, "room") }), "goroutine")
		},
		length: 300 * time.Millisecond,
	}},
	notes: []string{
		"room: asking whether the stack has room, x=1; call-with-room: a Call that has it",
		"link-call-unlink: a Call of an empty function that says it needs x bytes; for goroutines, the way to get such a stack there: a fresh goroutine grows to it, touching every page, and ends",
		"yield-beyond: x tasks that yield beyond a checkpoint, each on a chunk of its own of 4 KiB; for goroutines, in a function with a frame of as much; yield: without",
	},
}

var lingeringExperiment = experiment{
	name: "lingering-close",
	doc:  "progress of other tasks while a thousand sockets with unsent data are closed (Capriccio, 5.4)",
	parts: []part{{
		points:  slices.Concat(pointsAt("background", 1, 100, 1000), pointsAt("reset", 1, 100, 1000), pointsAt("waiting", 1, 100, 1000)),
		quick:   slices.Concat(pointsAt("background", 1000), pointsAt("reset", 1000), pointsAt("waiting", 1000)),
		systems: func(r *run) []contender { return r.goContenders() },
		length:  time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x sockets with 16 KiB each that the client does not read, each closed by a task or goroutine of its own, all at once, on core %d", serverCore),
		"stall: the longest that a timer of 1 ms was late meanwhile; close: until all were closed, each",
		"background: as sockets are; reset: SO_LINGER of 0 s; waiting: SO_LINGER of 1 s, set past netpoll, whose SetLinger never has close(2) wait",
	},
	charts: []report.Chart{{Title: "Longest stall while sockets are closed at once", Metric: "stall-waiting", XLabel: "sockets", LogY: true}},
}

var relayExperiment = experiment{
	name: "relay",
	doc:  "the cost of passing bulk data from connection to connection, as a TCP proxy does",
	parts: []part{{
		points:  append(pointsAt(relayedMetric, 1, 16), pointsAt(copiedMetric, 1, 16)...),
		systems: func(r *run) []contender { return r.goContenders() },
		length:  time.Second,
	}},
	notes: []string{
		fmt.Sprintf("x connections through which data are passed on at once by io.Copy, on core %d; another process sends and receives, on core %d", serverCore, clientCore),
		fmt.Sprintf("cpu-%s: processor time for 10^9 bytes; cpu-%s: the same where neither connection is known to be one, so that nothing but Read and Write is left", relayedMetric, copiedMetric),
	},
	charts: []report.Chart{{Title: "CPU to pass on a gigabyte", Metric: "cpu-" + relayedMetric, XLabel: "connections"}},
}
