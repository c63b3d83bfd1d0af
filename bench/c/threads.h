// What the baselines of Table 1 and Figure 1 of the Capriccio paper have in common. The file that includes this
// says before what thread_t, mutex_t and cond_t are and how INIT_MUTEX, LOCK, UNLOCK, INIT_COND, WAIT, SIGNAL
// and JOIN go, and defines behind it what is only declared here.
#include "bench.h"
#include <unistd.h>

static struct args arg;
static int64_t started_ns, ended_ns;
static mutex_t mu;
static cond_t *conds;
static long turn, hand_offs;

static thread_t spawn(void *(*fn)(void *), void *p);
static void run_all(long n, void *(*fn)(void *)); // fn gets the number of its thread
static void measure_yield(void);
static void *cond_body(void *p); // a token goes round the ring; holding it is having the turn

static void measure_cond(void)
{
	conds = calloc(arg.x, sizeof *conds);
	for (long i = 0; i < arg.x; i++)
		INIT_COND(conds[i]);
	run_all(arg.x, cond_body);
	emit("cond", "ns", arg.x, (double)(ended_ns - started_ns) / hand_offs);
}

static void measure_mutex(void)
{
	int64_t start = now_ns(), took;
	long n = 0;
	do {
		for (int i = 0; i < 10000; i++) {
			LOCK(mu);
			UNLOCK(mu);
		}
		n += 10000;
		took = now_ns() - start;
	} while (took < arg.duration_ns);
	emit("mutex", "ns", arg.x, (double)took / n);
}

static void *finish(void *p) { return p; }

static void measure_create(void)
{
	thread_t *threads = calloc(arg.x, sizeof *threads);
	int64_t start = now_ns(), took;
	long n = 0;
	do {
		for (long k = clock_interval(arg.x); k > 0; k--) {
			for (long i = 0; i < arg.x; i++)
				threads[i] = spawn(finish, NULL);
			for (long i = 0; i < arg.x; i++)
				JOIN(threads[i]);
			n += arg.x;
		}
		took = now_ns() - start;
	} while (took < arg.duration_ns);
	emit("create-finish", "ns", arg.x, (double)took / n);
}

static cond_t not_empty, not_full;
static long slots, filled, ready, consumed;
static int64_t began_ns;
static uint64_t steps;

static void *produce(void)
{
	LOCK(mu);
	ready++;
	for (;;) {
		while (filled == slots)
			WAIT(not_full, mu);
		filled++;
		SIGNAL(not_empty);
		UNLOCK(mu);
		LOCK(mu);
	}
	return NULL;
}

// The threads are given so long to begin, all of them: with long work and many
// threads not all get there.
static const int64_t begin_limit_ns = 500000000;

// The clock starts when every thread has begun.
static void count_message(void)
{
	consumed++;
	if (started_ns == 0) {
		int64_t now = ready == 2 * arg.x || consumed % 256 == 0 ? now_ns() : 0;
		if (now != 0 && (ready == 2 * arg.x || now - began_ns > begin_limit_ns)) {
			started_ns = now;
			consumed = 0;
		}
		return;
	}
	if (consumed % 256 != 0)
		return;
	int64_t took = now_ns() - started_ns;
	if (took > arg.duration_ns) {
		emit(arg.metric, "ops/s", arg.x, consumed * 1e9 / took);
		_exit(0);
	}
}

static void *consume(void)
{
	LOCK(mu);
	ready++;
	for (;;) {
		while (filled == 0)
			WAIT(not_empty, mu);
		filled--;
		count_message();
		SIGNAL(not_full);
		UNLOCK(mu);
		if (steps > 0)
			work_steps(steps);
		LOCK(mu);
	}
	return NULL;
}

static void *pair_body(void *p)
{
	return (long)p % 2 == 0 ? produce() : consume();
}

static void measure_pairs(void)
{
	steps = calibrate_work(arg.work_ns);
	slots = strcmp(arg.metric, "ops-one-slot") == 0 ? 1 : 128;
	began_ns = now_ns();
	INIT_COND(not_empty);
	INIT_COND(not_full);
	run_all(2 * arg.x, pair_body);
}

// measure does what arg says, and returns the status to end with.
static int measure(void)
{
	INIT_MUTEX(mu);
	if (strcmp(arg.metric, "yield") == 0) {
		measure_yield();
	} else if (strcmp(arg.metric, "cond") == 0) {
		measure_cond();
	} else if (strcmp(arg.metric, "mutex") == 0) {
		measure_mutex();
	} else if (strcmp(arg.metric, "create-finish") == 0) {
		measure_create();
	} else if (strncmp(arg.metric, "ops", 3) == 0) {
		measure_pairs();
	} else {
		fprintf(stderr, "unknown metric %s\n", arg.metric);
		return 2;
	}
	return 0;
}
