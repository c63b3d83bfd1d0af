// Table 1 and Figure 1 of the Capriccio paper with the State Threads library.
#include "bench.h"
#include <st.h>
#include <unistd.h>

// What the library rounds a stack up to is its own affair.
enum { STACK_BYTES = 16 << 10 };

static struct args arg;
static int stop;
static int64_t started_ns, ended_ns;

static st_thread_t spawn(void *(*fn)(void *), void *p)
{
	st_thread_t t = st_thread_create(fn, p, 1, STACK_BYTES);
	if (t == NULL)
		die("st_thread_create");
	return t;
}

static void run_all(long n, void *(*fn)(void *))
{
	st_thread_t *threads = calloc(n, sizeof *threads);
	for (long i = n - 1; i >= 0; i--) // the first one runs when the others wait
		threads[i] = spawn(fn, (void *)i);
	for (long i = 0; i < n; i++)
		st_thread_join(threads[i], NULL);
	free(threads);
}

static long hand_offs;

// look_at_clock is called by the first thread once a round.
static void look_at_clock(long rounds)
{
	if (rounds == 0) {
		started_ns = now_ns();
	} else if (rounds % clock_interval(arg.x) == 0) {
		ended_ns = now_ns();
		stop = ended_ns - started_ns > arg.duration_ns;
		hand_offs = rounds * arg.x;
	}
}

static st_cond_t shared;

// The library has no yield; st_usleep(0) goes through its timer heap and its
// poller. Waking the thread that has waited longest and waiting behind all the
// others is the same round robin, at one switch a turn. Only one is ready at a
// time, for a woken thread stays in the queue, in everyone's way, until it runs.
static void *yield_body(void *p)
{
	long rounds = 0;
	if (p != 0)
		st_cond_wait(shared);
	while (!stop) {
		if (p == 0)
			look_at_clock(rounds++);
		st_cond_signal(shared);
		if (!stop)
			st_cond_wait(shared);
	}
	st_cond_broadcast(shared);
	return NULL;
}

static st_cond_t *conds;
static long turn;

static void *cond_body(void *p)
{
	long me = (long)p, next = (me + 1) % arg.x, rounds = 0;
	do {
		while (turn != me && !stop)
			st_cond_wait(conds[me]);
		if (!stop && me == 0)
			look_at_clock(rounds++);
		turn = next;
		st_cond_signal(conds[next]);
	} while (!stop);
	return NULL;
}

static void measure_cond(void)
{
	conds = calloc(arg.x, sizeof *conds);
	for (long i = 0; i < arg.x; i++)
		conds[i] = st_cond_new();
	run_all(arg.x, cond_body);
	emit("cond", "ns", arg.x, (double)(ended_ns - started_ns) / hand_offs);
}

static void measure_mutex(void)
{
	st_mutex_t mu = st_mutex_new();
	int64_t start = now_ns(), took;
	long n = 0;
	do {
		for (int i = 0; i < 10000; i++) {
			st_mutex_lock(mu);
			st_mutex_unlock(mu);
		}
		n += 10000;
		took = now_ns() - start;
	} while (took < arg.duration_ns);
	emit("mutex", "ns", arg.x, (double)took / n);
}

static void *finish(void *p) { return p; }

static void measure_create(void)
{
	st_thread_t *threads = calloc(arg.x, sizeof *threads);
	int64_t start = now_ns(), took;
	long n = 0;
	do {
		for (long k = clock_interval(arg.x); k > 0; k--) {
			for (long i = 0; i < arg.x; i++)
				threads[i] = spawn(finish, NULL);
			for (long i = 0; i < arg.x; i++)
				st_thread_join(threads[i], NULL);
			n += arg.x;
		}
		took = now_ns() - start;
	} while (took < arg.duration_ns);
	emit("create-finish", "ns", arg.x, (double)took / n);
}

static st_mutex_t mu;
static st_cond_t not_empty, not_full;
static long slots, filled, ready, consumed;
static int64_t began_ns;
static uint64_t steps;

// The library's condition variables know no mutex: unlock and wait are one
// step here because nothing else runs in between.
static void wait_unlocked(st_cond_t c)
{
	st_mutex_unlock(mu);
	st_cond_wait(c);
	st_mutex_lock(mu);
}

static void *produce(void)
{
	st_mutex_lock(mu);
	ready++;
	for (;;) {
		while (filled == slots)
			wait_unlocked(not_full);
		filled++;
		st_cond_signal(not_empty);
		st_mutex_unlock(mu);
		st_mutex_lock(mu);
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
	st_mutex_lock(mu);
	ready++;
	for (;;) {
		while (filled == 0)
			wait_unlocked(not_empty);
		filled--;
		count_message();
		st_cond_signal(not_full);
		st_mutex_unlock(mu);
		if (steps > 0)
			work_steps(steps);
		st_mutex_lock(mu);
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
	mu = st_mutex_new();
	not_empty = st_cond_new();
	not_full = st_cond_new();
	run_all(2 * arg.x, pair_body);
}

int main(int argc, char **argv)
{
	arg = parse_args(argc, argv);
	if (st_init() != 0)
		die("st_init");
	if (strcmp(arg.metric, "yield") == 0) {
		shared = st_cond_new();
		run_all(arg.x, yield_body);
		emit("yield", "ns", arg.x, (double)(ended_ns - started_ns) / hand_offs);
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
