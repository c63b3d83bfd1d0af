// Table 1 and Figure 1 of the Capriccio paper with the State Threads library.
#include <st.h>

typedef st_thread_t thread_t;
typedef st_mutex_t mutex_t;
typedef st_cond_t cond_t;
#define INIT_MUTEX(m) ((m) = st_mutex_new())
#define LOCK(m) st_mutex_lock(m)
#define UNLOCK(m) st_mutex_unlock(m)
#define INIT_COND(c) ((c) = st_cond_new())
// The library's condition variables know no mutex: unlock and wait are one step here because nothing else
// runs in between.
#define WAIT(c, m) (st_mutex_unlock(m), st_cond_wait(c), st_mutex_lock(m))
#define SIGNAL(c) st_cond_signal(c)
#define JOIN(t) st_thread_join(t, NULL)
#include "threads.h"

// What the library rounds a stack up to is its own affair.
enum { STACK_BYTES = 16 << 10 };

static int stop;

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

static void measure_yield(void)
{
	shared = st_cond_new();
	run_all(arg.x, yield_body);
	emit("yield", "ns", arg.x, (double)(ended_ns - started_ns) / hand_offs);
}

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

int main(int argc, char **argv)
{
	arg = parse_args(argc, argv);
	if (st_init() != 0)
		die("st_init");
	return measure();
}
