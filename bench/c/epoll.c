// Figure 2 of the Capriccio paper as a bare event loop: tokens of 12 bytes are
// passed among pipes, each time to one drawn by lot.
#define _GNU_SOURCE
#include "bench.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TOKEN_BYTES = 12, TOKENS_READ = 16, EVENTS = 256, SPARE_DESCRIPTORS = 100 };

struct pipe_ends {
	int r, w;
	uint64_t lot;
};

static struct args arg;
static struct pipe_ends *pipes;

// One descriptor for both ends where two do not fit below the limit.
static void open_pipe(struct pipe_ends *p, int single)
{
	int fd[2];
	char path[64];
	if (pipe2(fd, O_NONBLOCK | O_CLOEXEC) != 0)
		die("pipe2");
	p->r = fd[0];
	p->w = fd[1];
	p->lot = p - pipes;
	if (!single)
		return;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd[0]);
	int both = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (both < 0)
		die(path);
	close(fd[0]);
	close(fd[1]);
	p->r = p->w = both;
}

static void open_pipes(int epoll)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		die("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	int single = 2 * arg.x + SPARE_DESCRIPTORS > (long)limit.rlim_cur;
	pipes = calloc(arg.x, sizeof *pipes);
	for (long i = 0; i < arg.x; i++) {
		open_pipe(&pipes[i], single);
		struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u64 = i};
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[i].r, &ev) != 0)
			die("epoll_ctl");
	}
}

static void send_tokens(void)
{
	char token[TOKEN_BYTES] = {0};
	long tokens = arg.x < 128 ? arg.x / 4 : 128;
	if (tokens < 1)
		tokens = 1;
	for (long t = 0; t < tokens; t++)
		if (write(pipes[t * arg.x / tokens].w, token, sizeof token) != sizeof token)
			die("write");
}

static long pass_on(struct pipe_ends *from, const char *tokens, ssize_t bytes)
{
	long passed = 0;
	for (ssize_t at = 0; at < bytes; at += TOKEN_BYTES) {
		from->lot = from->lot * 6364136223846793005u + 1442695040888963407u;
		struct pipe_ends *to = &pipes[(from->lot >> 33) % arg.x];
		if (write(to->w, tokens + at, TOKEN_BYTES) != TOKEN_BYTES)
			die("write");
		passed++;
	}
	return passed;
}

// A read shorter than the buffer means drained. Writes of 12 bytes are never
// split (pipe(7)), so only whole tokens come.
static long pass_tokens(int epoll)
{
	char buffer[TOKENS_READ * TOKEN_BYTES];
	struct epoll_event events[EVENTS];
	long passed = 0;
	int n = epoll_wait(epoll, events, EVENTS, -1);
	for (int i = 0; i < n; i++) {
		struct pipe_ends *p = &pipes[events[i].data.u64];
		ssize_t got;
		do {
			got = read(p->r, buffer, sizeof buffer);
			if (got < 0 && errno == EAGAIN)
				break;
			if (got <= 0)
				die("read");
			passed += pass_on(p, buffer, got);
		} while (got == sizeof buffer);
	}
	return passed;
}

int main(int argc, char **argv)
{
	arg = parse_args(argc, argv);
	if (strcmp(arg.metric, "tokens") != 0) {
		fprintf(stderr, "unknown metric %s\n", arg.metric);
		return 2;
	}
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0)
		die("epoll_create1");
	open_pipes(epoll);
	send_tokens();
	for (long warm = 0; warm < arg.x + 1000; warm += pass_tokens(epoll))
		;
	int64_t start = now_ns(), took;
	long passed = 0;
	do {
		for (int i = 0; i < 16; i++)
			passed += pass_tokens(epoll);
		took = now_ns() - start;
	} while (took < arg.duration_ns);
	emit("tokens", "tokens/s", arg.x, passed * 1e9 / took);
	return 0;
}
