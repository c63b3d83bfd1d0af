// Table 1 and Figure 1 of the Capriccio paper with the system's own threads.
#define _GNU_SOURCE
#include "bench.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { STACK_BYTES = 32 << 10 };

static struct args arg;
static atomic_bool stop;
static atomic_long total;
static pthread_barrier_t gate;
static int64_t started_ns, ended_ns;

static pthread_t spawn(void *(*fn)(void *), void *p)
{
	pthread_attr_t attr;
	pthread_t t;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	int err = pthread_create(&t, &attr, fn, p);
	if (err != 0) {
		fprintf(stderr, "pthread_create: %s\n", strerror(err));
		exit(1);
	}
	pthread_attr_destroy(&attr);
	return t;
}

static void run_all(long n, void *(*fn)(void *))
{
	pthread_t *threads = calloc(n, sizeof *threads);
	pthread_barrier_init(&gate, NULL, n);
	for (long i = 0; i < n; i++)
		threads[i] = spawn(fn, (void *)i);
	for (long i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

// sched_yield need not be a round robin, so everyone counts and the one that
// watches the clock looks at it on every tenth turn of its own.
static void *yield_body(void *p)
{
	long n = 0;
	pthread_barrier_wait(&gate);
	if (p == 0)
		started_ns = now_ns();
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		sched_yield();
		n++;
		if (p == 0 && (n % 10 == 0 || arg.x > 100)) {
			ended_ns = now_ns();
			if (ended_ns - started_ns > arg.duration_ns)
				atomic_store(&stop, 1);
		}
	}
	atomic_fetch_add(&total, n);
	return NULL;
}

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t *conds;
static long turn, hand_offs;

// A token goes round the ring; holding it is having the turn.
static void *cond_body(void *p)
{
	long me = (long)p, next = (me + 1) % arg.x, rounds = 0;
	const long interval = clock_interval(arg.x);
	pthread_barrier_wait(&gate);
	pthread_mutex_lock(&mu);
	for (;;) {
		while (turn != me && !stop)
			pthread_cond_wait(&conds[me], &mu);
		if (!stop && me == 0) {
			if (rounds == 0)
				started_ns = now_ns();
			else if (rounds % interval == 0) {
				ended_ns = now_ns();
				stop = ended_ns - started_ns > arg.duration_ns;
				hand_offs = rounds * arg.x;
			}
			rounds++;
		}
		turn = next;
		pthread_cond_signal(&conds[next]);
		if (stop)
			break;
	}
	pthread_mutex_unlock(&mu);
	return NULL;
}

static void measure_cond(void)
{
	conds = calloc(arg.x, sizeof *conds);
	for (long i = 0; i < arg.x; i++)
		pthread_cond_init(&conds[i], NULL);
	run_all(arg.x, cond_body);
	emit("cond", "ns", arg.x, (double)(ended_ns - started_ns) / hand_offs);
}

static void measure_mutex(void)
{
	int64_t start = now_ns(), took;
	long n = 0;
	do {
		for (int i = 0; i < 10000; i++) {
			pthread_mutex_lock(&mu);
			pthread_mutex_unlock(&mu);
		}
		n += 10000;
		took = now_ns() - start;
	} while (took < arg.duration_ns);
	emit("mutex", "ns", arg.x, (double)took / n);
}

static void *finish(void *p) { return p; }

static void measure_create(void)
{
	pthread_t *threads = calloc(arg.x, sizeof *threads);
	int64_t start = now_ns(), took;
	long n = 0;
	do {
		for (long k = clock_interval(arg.x); k > 0; k--) {
			for (long i = 0; i < arg.x; i++)
				threads[i] = spawn(finish, NULL);
			for (long i = 0; i < arg.x; i++)
				pthread_join(threads[i], NULL);
			n += arg.x;
		}
		took = now_ns() - start;
	} while (took < arg.duration_ns);
	emit("create-finish", "ns", arg.x, (double)took / n);
}

static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
static long slots, filled, ready, consumed;
static int64_t began_ns;
static uint64_t steps;

static void *produce(void)
{
	pthread_mutex_lock(&mu);
	ready++;
	for (;;) {
		while (filled == slots)
			pthread_cond_wait(&not_full, &mu);
		filled++;
		pthread_cond_signal(&not_empty);
		pthread_mutex_unlock(&mu);
		pthread_mutex_lock(&mu);
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
	pthread_mutex_lock(&mu);
	ready++;
	for (;;) {
		while (filled == 0)
			pthread_cond_wait(&not_empty, &mu);
		filled--;
		count_message();
		pthread_cond_signal(&not_full);
		pthread_mutex_unlock(&mu);
		if (steps > 0)
			work_steps(steps);
		pthread_mutex_lock(&mu);
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
	run_all(2 * arg.x, pair_body);
}

int main(int argc, char **argv)
{
	arg = parse_args(argc, argv);
	if (strcmp(arg.metric, "yield") == 0) {
		run_all(arg.x, yield_body);
		emit("yield", "ns", arg.x, (double)(ended_ns - started_ns) / total);
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
