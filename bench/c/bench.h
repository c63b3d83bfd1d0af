// What the C baselines share: the clock, the arguments, the output line and
// the calibrated work loop. Arguments are METRIC X MILLISECONDS [WORK_NS];
// output lines are "metric unit x value", as the Go workers print them.
#ifndef BENCH_H
#define BENCH_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct args {
	const char *metric;
	long x;
	int64_t duration_ns;
	long work_ns;
};

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

static inline int64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static long whole_number(const char *text, const char *name)
{
	char *end;
	long n = strtol(text, &end, 10);
	if (*text == 0 || *end != 0 || n < 0) {
		fprintf(stderr, "%s: not a number: %s\n", name, text);
		exit(2);
	}
	return n;
}

static void emit(const char *metric, const char *unit, long x, double value)
{
	printf("%s %s %ld %.6g\n", metric, unit, x, value);
	fflush(stdout);
}

// How often the watcher of the clock looks at it: once in this number of turns.
static inline long clock_interval(long x)
{
	long turns = 2000 / x;
	return turns < 1 ? 1 : turns;
}

static volatile uint64_t work_sink;

static inline void work_steps(uint64_t steps)
{
	uint64_t v = work_sink;
	for (uint64_t i = 0; i < steps; i++)
		v = v * 6364136223846793005u + 1442695040888963407u;
	work_sink = v;
}

static struct args parse_args(int argc, char **argv)
{
	if (argc != 4 && argc != 5) {
		fprintf(stderr, "usage: %s METRIC X MILLISECONDS [WORK_NS]\n", argv[0]);
		exit(2);
	}
	struct args a = {argv[1], whole_number(argv[2], "X"),
			 whole_number(argv[3], "MILLISECONDS") * 1000000, 0};
	if (argc == 5)
		a.work_ns = whole_number(argv[4], "WORK_NS");
	if (a.x < 1 || a.duration_ns < 1) {
		fprintf(stderr, "X and MILLISECONDS must be at least 1\n");
		exit(2);
	}
	// A core that was idle needs a few milliseconds to come up to speed.
	for (int64_t start = now_ns(); now_ns() - start < 5000000;)
		work_steps(10000);
	return a;
}

// Steps that take ns nanoseconds on this core now; 0 for 0.
static inline uint64_t calibrate_work(long ns)
{
	const uint64_t trial = 200000;
	int64_t best = INT64_MAX;
	if (ns == 0)
		return 0;
	for (int i = 0; i < 10; i++) {
		int64_t start = now_ns();
		work_steps(trial);
		int64_t took = now_ns() - start;
		if (took < best)
			best = took;
	}
	return (uint64_t)((double)ns * trial / best);
}

#endif
