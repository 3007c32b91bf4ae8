// hog takes memory at a chosen rate and writes down when it is told to leave.
//
//   hog [--mib N] [--rate-mib-per-s R] [--delay-ms D] [--term-delay-ms T] [--exit CODE] [--go FIFO] [--stamp FILE] [--stubborn]
//
// It waits for a writer to open FIFO, then D ms, then touches N MiB at R MiB/s (0: as fast as it can)
// and holds them. Each step appends "WORD NANOSECONDS" (CLOCK_MONOTONIC) to FILE: ready, go, full, term.
// SIGTERM: the handler itself writes the stamp, so that no scheduling of ours is in it; then the process
// lives for T ms more, giving back and taking again its newest memory, so that the kernel keeps
// reporting crossings, and exits with CODE (0). One that is stubborn takes all N MiB before, if it has begun.
// SIGUSR1: gives all memory back and stays.
//
// C because a signal handler runs at once on the interrupted thread; a Go one waits for a goroutine.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096, CHURN = 256 * MIB, HUGE_FROM_MIB_PER_S = 500 };

static int stamp_fd = -1;
static volatile sig_atomic_t terminated, released;
static int stubborn;
static volatile long long terminated_at;

static long long now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// stamp is called from a signal handler: no stdio in here.
static void stamp(const char *word, long long ns) {
	char line[64];
	size_t n = strlen(word), digits = 0;
	char rev[24];
	memcpy(line, word, n);
	line[n++] = ' ';
	do rev[digits++] = '0' + ns % 10; while (ns /= 10);
	while (digits) line[n++] = rev[--digits];
	line[n++] = '\n';
	if (stamp_fd >= 0 && write(stamp_fd, line, n) < 0) _exit(3);
}

static void on_term(int sig) {
	(void)sig;
	long long at = now_ns();
	int saved = errno;
	if (!terminated) {
		stamp("term", at);
		terminated_at = at;
		terminated = 1;
	}
	errno = saved;
}

static void on_usr1(int sig) {
	(void)sig;
	released = 1;
}

static void sleep_until(long long ns) {
	struct timespec t = {ns / 1000000000LL, ns % 1000000000LL};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL); // an early return is fine
}

static void touch(char *p, size_t n) {
	for (size_t i = 0; i < n; i += PAGE) p[i] = 1;
}

// fill touches size bytes at the given rate and returns how many it got to before a signal.
static size_t fill(char *p, size_t size, double bytes_per_ns) {
	size_t chunk = bytes_per_ns > 0 && bytes_per_ns * 1e9 < (double)HUGE_FROM_MIB_PER_S * MIB ? MIB / 4 : 2 * MIB;
	long long start = now_ns();
	size_t done = 0;
	while (done < size && (!terminated || stubborn) && !released) {
		long long due = bytes_per_ns > 0 ? start + (long long)(done / bytes_per_ns) : 0;
		if (due > now_ns()) {
			sleep_until(due);
			continue;
		}
		size_t n = size - done < chunk ? size - done : chunk;
		touch(p + done, n);
		done += n;
	}
	return done;
}

// linger keeps memory moving until the time is over.
static void linger(char *p, size_t filled, long long until) {
	size_t churn = filled < CHURN ? filled / (2 * MIB) * (2 * MIB) : CHURN;
	while (now_ns() < until) {
		if (churn) {
			madvise(p + filled - churn, churn, MADV_DONTNEED);
			sleep_until(now_ns() + 20000000);
			touch(p + filled - churn, churn);
		}
		sleep_until(now_ns() + 20000000);
	}
}

int main(int argc, char **argv) {
	long mib = 0, rate = 0, delay_ms = 0, term_delay_ms = 0, code = 0;
	const char *go = NULL, *stamps = NULL;
	static const struct option options[] = {
		{"mib", 1, 0, 'm'}, {"rate-mib-per-s", 1, 0, 'r'}, {"delay-ms", 1, 0, 'd'}, {"term-delay-ms", 1, 0, 't'},
		{"exit", 1, 0, 'e'}, {"go", 1, 0, 'g'}, {"stamp", 1, 0, 's'}, {"stubborn", 0, &stubborn, 1}, {0},
	};
	for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (o) {
		case 'm': mib = atol(optarg); break;
		case 'r': rate = atol(optarg); break;
		case 'd': delay_ms = atol(optarg); break;
		case 't': term_delay_ms = atol(optarg); break;
		case 'e': code = atol(optarg); break;
		case 'g': go = optarg; break;
		case 's': stamps = optarg; break;
		case 0: break;
		default: return 2;
		}
	}
	if (stamps && (stamp_fd = open(stamps, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) < 0) {
		perror(stamps);
		return 1;
	}
	struct sigaction term = {.sa_handler = on_term}, usr1 = {.sa_handler = on_usr1};
	sigaction(SIGTERM, &term, NULL);
	sigaction(SIGUSR1, &usr1, NULL);

	// An anonymous mapping aligned to huge pages; with a fast rate the kernel is asked for them, since
	// 4 KiB faults alone cannot reach 3 GiB/s.
	size_t size = (size_t)mib * MIB;
	char *p = NULL;
	if (size) {
		char *raw = mmap(NULL, size + 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (raw == MAP_FAILED) {
			perror("mmap");
			return 1;
		}
		p = (char *)(((size_t)raw + 2 * MIB - 1) & ~(size_t)(2 * MIB - 1));
		madvise(p, size, rate == 0 || rate >= HUGE_FROM_MIB_PER_S ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	}
	stamp("ready", now_ns());

	if (go) {
		int fd;
		while ((fd = open(go, O_RDONLY | O_CLOEXEC)) < 0 && errno == EINTR && !terminated) {}
		if (fd < 0 && !terminated) {
			perror(go);
			return 1;
		}
	}
	for (long long until = now_ns() + delay_ms * 1000000LL; now_ns() < until && !terminated;) sleep_until(until);

	stamp("go", now_ns());
	size_t filled = terminated ? 0 : fill(p, size, rate * (double)MIB / 1e9);
	stamp("full", now_ns());
	// Polling covers a signal that comes between the test and the sleep; its stamp is written already.
	while (!terminated && !released) sleep_until(now_ns() + 50000000);
	if (!terminated) {
		munmap(p, size);
		filled = 0;
		while (!terminated) sleep_until(now_ns() + 50000000);
	}
	linger(p, filled, terminated_at + term_delay_ms * 1000000LL);
	return (int)code;
}
