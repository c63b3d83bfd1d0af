// Figures 3 and 4 of the Capriccio paper with the system's own threads. Arguments are
// METRIC READERS MILLISECONDS MISSES SMALL LARGE, as the Go workers take them.
#define _GNU_SOURCE
#include "bench.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STACK_BYTES = 32 << 10, BLOCK = 4 << 10, LOOKED = 64 };

struct file {
	int fd;
	uint64_t blocks;
};

static struct args arg;
static struct file hit, miss;
static bool once;
static char *buffers;
static pthread_barrier_t gate;
static atomic_bool stop;
static atomic_long done, fresh;

struct look {
	int64_t at_ns, cpu_ns;
	long done;
	int64_t fetched;
};

static uint64_t below(uint64_t *lot, uint64_t n)
{
	*lot = *lot * 6364136223846793005u + 1442695040888963407u;
	uint64_t v = (*lot ^ *lot >> 33) * 0xff51afd7ed558ccdu;
	return (unsigned __int128)(v ^ v >> 33) * n >> 64;
}

static void *read_body(void *p)
{
	long me = (long)p;
	char *buffer = buffers + me * BLOCK;
	uint64_t lot = (uint64_t)(me + 1) * 0x9e3779b97f4a7c15u | 1;
	pthread_barrier_wait(&gate);
	for (long turn = 0; !atomic_load_explicit(&stop, memory_order_relaxed); turn++) {
		bool misses = arg.work_ns == 100 || (arg.work_ns > 0 && below(&lot, 100) < (uint64_t)arg.work_ns);
		struct file *f = misses ? &miss : &hit;
		uint64_t block;
		if (misses && once) {
			uint64_t i = atomic_fetch_add(&fresh, 1) + 1;
			if (i > f->blocks) {
				atomic_store(&stop, true);
				break;
			}
			block = i * 0x9e3779b1u & (f->blocks - 1);
		} else {
			block = below(&lot, f->blocks);
		}
		if (pread(f->fd, buffer, BLOCK, block * BLOCK) != BLOCK)
			die("pread");
		uint64_t got;
		memcpy(&got, buffer, sizeof got);
		if (turn % LOOKED == 0 && got != block) {
			fprintf(stderr, "block %lu begins with %lu\n", (unsigned long)block, (unsigned long)got);
			exit(1);
		}
		atomic_fetch_add_explicit(&done, 1, memory_order_relaxed);
	}
	return NULL;
}

static struct file open_file(const char *path, int flags)
{
	struct stat info;
	struct file f = {open(path, O_RDONLY | flags), 0};
	if (f.fd < 0 || fstat(f.fd, &info) < 0)
		die(path);
	f.blocks = info.st_size / BLOCK;
	return f;
}

// look says what has been done so far; fetched is read_bytes of proc_pid_io(5).
static struct look look(void)
{
	struct look l = {0};
	struct rusage u;
	long long fetched = 0;
	char line[128];
	FILE *io = fopen("/proc/self/io", "r");
	if (io == NULL || getrusage(RUSAGE_SELF, &u) < 0)
		die("look");
	while (fgets(line, sizeof line, io) != NULL)
		if (sscanf(line, "read_bytes: %lld", &fetched) == 1)
			l.fetched = fetched;
	fclose(io);
	l.cpu_ns = (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000ll + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000ll;
	l.at_ns = now_ns();
	l.done = atomic_load(&done);
	return l;
}

static void wait_ns(int64_t ns)
{
	struct timespec step = {0, 5000000};
	for (int64_t end = now_ns() + ns; now_ns() < end && !atomic_load(&stop);)
		nanosleep(&step, NULL);
}

static void spawn_all(void)
{
	pthread_attr_t attr;
	pthread_barrier_init(&gate, NULL, arg.x + 1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (long i = 0; i < arg.x; i++) {
		pthread_t t;
		int err = pthread_create(&t, &attr, read_body, (void *)i);
		if (err != 0) {
			fprintf(stderr, "pthread_create: %s\n", strerror(err));
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 7) {
		fprintf(stderr, "usage: %s METRIC READERS MILLISECONDS MISSES SMALL LARGE\n", argv[0]);
		return 2;
	}
	arg = parse_args(5, argv);
	bool direct = strcmp(arg.metric, "reads-direct") == 0, mixed = strcmp(arg.metric, "reads-mixed") == 0;
	once = strcmp(arg.metric, "reads-buffered") == 0;
	if (!direct && !mixed && !once) {
		fprintf(stderr, "unknown metric %s\n", arg.metric);
		return 2;
	}
	if (direct)
		arg.work_ns = 100;
	miss = open_file(argv[6], once ? 0 : O_DIRECT);
	if (arg.work_ns < 100)
		hit = open_file(argv[5], 0);
	if ((errno = posix_fadvise(miss.fd, 0, 0, POSIX_FADV_RANDOM)) != 0)
		die("fadvise");
	buffers = mmap(NULL, arg.x * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffers == MAP_FAILED)
		die("mmap");
	spawn_all();
	// With 200 threads to run, the kernel would let this one wait for half a second.
	(void)!setpriority(PRIO_PROCESS, 0, -10);
	pthread_barrier_wait(&gate);
	wait_ns(arg.duration_ns / 5);
	struct look before = look();
	wait_ns(arg.duration_ns - arg.duration_ns / 5);
	struct look after = look();
	double reads = after.done - before.done;
	if (reads == 0) {
		fprintf(stderr, "nothing was read\n");
		return 1;
	}
	emit(arg.metric, "reads/s", arg.x, reads * 1e9 / (after.at_ns - before.at_ns));
	emit("cpu-per-read", "ns", arg.x, (after.cpu_ns - before.cpu_ns) / reads);
	if (!direct)
		emit("missed", "%", arg.x, 100.0 * (after.fetched - before.fetched) / BLOCK / reads);
	fflush(stdout);
	_exit(0); // readers may be anywhere
}
