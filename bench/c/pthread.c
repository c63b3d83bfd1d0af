// Table 1 and Figure 1 of the Capriccio paper with the system's own threads.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

typedef pthread_t thread_t;
typedef pthread_mutex_t mutex_t;
typedef pthread_cond_t cond_t;
#define INIT_MUTEX(m) pthread_mutex_init(&(m), NULL)
#define LOCK(m) pthread_mutex_lock(&(m))
#define UNLOCK(m) pthread_mutex_unlock(&(m))
#define INIT_COND(c) pthread_cond_init(&(c), NULL)
#define WAIT(c, m) pthread_cond_wait(&(c), &(m))
#define SIGNAL(c) pthread_cond_signal(&(c))
#define JOIN(t) pthread_join(t, NULL)
#include "threads.h"

enum { STACK_BYTES = 32 << 10 };

static atomic_bool stop;
static atomic_long total;
static pthread_barrier_t gate;

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

static void measure_yield(void)
{
	run_all(arg.x, yield_body);
	emit("yield", "ns", arg.x, (double)(ended_ns - started_ns) / total);
}

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

int main(int argc, char **argv)
{
	arg = parse_args(argc, argv);
	return measure();
}
