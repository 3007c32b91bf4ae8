// thrash makes a node run short of memory and measures what it goes through. All times are in milliseconds of
// CLOCK_MONOTONIC.
//
//   thrash read FILE MIB PERIOD_MS   reads the file again and again, as a service reads its data; prints each second the
//                                    longest time without a finished round
//   thrash map FILE MIB PERIOD_MS    touches the mapped file again and again, as a service runs its own text
//   thrash hog LEAVE FAST SLOW       takes FAST MiB a second until MemAvailable is LEAVE MiB, then SLOW a second
//   thrash sample FILE PID...        writes figures to FILE every 25 ms until SIGTERM: its own header says which. Faults and
//                                    resident pages are those of each process
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, CHUNK = 1 << 18, MOST_PIDS = 8 };

static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_ms(long ms) {
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	if (ms > 0) nanosleep(&t, NULL);
}

// contents reads a file that stays open.
static const char *contents(int fd) {
	static char buf[1 << 16];
	size_t size = 0;
	ssize_t n;
	while (fd >= 0 && size < sizeof buf - 1 && (n = pread(fd, buf + size, sizeof buf - 1 - size, size)) > 0) size += n;
	buf[size] = 0;
	return buf;
}

// field returns the number after a name at the beginning of a line, -1 if there is none.
static long field(const char *text, const char *name) {
	size_t n = strlen(name);
	for (const char *line = text; line && *line; line = (line = strchr(line, '\n')) ? line + 1 : NULL)
		if (!strncmp(line, name, n) && strchr(" :", line[n])) return atol(line + n + 1 + strspn(line + n + 1, " "));
	return -1;
}

static int load(int mapped, char **args) {
	static char buf[CHUNK];
	int fd = open(args[0], O_RDONLY);
	size_t size = (size_t)atol(args[1]) << 20;
	long period = atol(args[2]);
	char *file = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED) return perror(args[0]), 1;
	volatile char sum = 0;
	long worst = 0, last = now(), second = last;
	for (;;) {
		for (size_t i = 0; i < size; i += mapped ? PAGE : CHUNK) {
			if (mapped) sum += file[i];
			else if (pread(fd, buf, CHUNK, i) <= 0) return perror("pread"), 1;
		}
		long at = now();
		if (at - last > worst) worst = at - last;
		last = at;
		if (at - second >= 1000) {
			printf("%ld %ld\n", at, worst);
			fflush(stdout);
			second = at, worst = 0;
		}
		pause_ms(period);
	}
}

static int hog(char **args) {
	long leave = atol(args[0]), rate = atol(args[1]), slow = atol(args[2]), start = now();
	int meminfo = open("/proc/meminfo", O_RDONLY), slowed = 0;
	size_t size = 1UL << 32, done = 0, base = 0;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) return perror("mmap"), 1;
	madvise(p, size, MADV_NOHUGEPAGE);
	while (done < size) {
		if (!slowed && field(contents(meminfo), "MemAvailable") >> 10 <= leave) {
			slowed = 1, rate = slow, start = now(), base = done;
			printf("%ld\n", start);
			fflush(stdout);
		}
		long due = start + (long)((done - base) * 1000.0 / (1 << 20) / rate);
		if (due > now()) {
			pause_ms(due - now());
			continue;
		}
		for (size_t i = 0; i < CHUNK; i += PAGE) p[done + i] = 1;
		done += CHUNK;
	}
	pause();
	return 0;
}

static volatile sig_atomic_t over;
static void on_term(int sig) { over = sig; }

static int sample(int n, char **args) {
	static struct { const char *of, *name; int file; } const columns[] = {
		{"total_kib", "MemTotal", 0}, {"available_kib", "MemAvailable", 0}, {"anon_bytes", "anon", 1}, {"file_bytes", "file", 1},
		{"inactive_file_bytes", "inactive_file", 1}, {"oom_kills", "oom_kill", 2}, {"refaults", "workingset_refault_file", 2},
		{"direct_scans", "pgscan_direct", 2},
	};
	enum { COLUMNS = sizeof columns / sizeof *columns, MOST = 1 << 14 };
	static long rows[MOST][2 + COLUMNS + 2 * MOST_PIDS];
	static char out[1 << 16];
	int files[] = {open("/proc/meminfo", O_RDONLY), open("/sys/fs/cgroup/memory.stat", O_RDONLY), open("/proc/vmstat", O_RDONLY)};
	int full = open("/proc/pressure/memory", O_RDONLY), stat[MOST_PIDS], pids = n - 1 < MOST_PIDS ? n - 1 : MOST_PIDS, taken = 0;
	char path[64];
	for (int i = 0; i < pids; i++) {
		snprintf(path, sizeof path, "/proc/%s/stat", args[1 + i]);
		stat[i] = open(path, O_RDONLY);
	}
	int fd = open(args[0], O_WRONLY | O_CREAT | O_TRUNC, 0644);
	FILE *to = fdopen(fd, "w");
	if (!to) return perror(args[0]), 1;
	setvbuf(to, out, _IOFBF, sizeof out);
	signal(SIGTERM, on_term);
	mlockall(MCL_CURRENT | MCL_FUTURE);
	setpriority(PRIO_PROCESS, 0, -20);
	for (long next = now(); !over && taken < MOST; taken++) {
		long *row = rows[taken];
		*row++ = now();
		const char *text = NULL;
		for (int i = 0; i < COLUMNS; i++) {
			if (!i || columns[i].file != columns[i - 1].file) text = contents(files[columns[i].file]);
			*row++ = field(text, columns[i].name);
		}
		char *at = strstr(contents(full), "full "), *total = at ? strstr(at, "total=") : NULL;
		*row++ = total ? atol(total + 6) : -1;
		for (int i = 0; i < pids; i++) {
			char *end = strrchr(contents(stat[i]), ')');
			long faults = -1, pages = -1;
			if (end) sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %ld %*u %*u %*u %*d %*d %*d %*d %*d %*d %*u %*u %ld", &faults, &pages);
			*row++ = faults, *row++ = pages;
		}
		next += 25;
		pause_ms(next - now());
	}
	fprintf(to, "ms");
	for (int i = 0; i < COLUMNS; i++) fprintf(to, " %s", columns[i].of);
	fprintf(to, " full_us");
	for (int i = 0; i < pids; i++) fprintf(to, " faults_%s pages_%s", args[1 + i], args[1 + i]);
	for (int i = 0; i < taken; i++)
		for (int j = 0; j < 2 + COLUMNS + 2 * pids; j++) fprintf(to, "%c%ld", j ? ' ' : '\n', rows[i][j]);
	fprintf(to, "\n");
	return fclose(to);
}

int main(int n, char **args) {
	if (n == 5 && !strcmp(args[1], "read")) return load(0, args + 2);
	if (n == 5 && !strcmp(args[1], "map")) return load(1, args + 2);
	if (n == 5 && !strcmp(args[1], "hog")) return hog(args + 2);
	if (n >= 3 && !strcmp(args[1], "sample")) return sample(n - 2, args + 2);
	return 2;
}
