// Writes registers to a process as User-Mode Linux does.
// usage: registers fake | registers real
//   fake: to no process, for arrives.c; the buffer is full of ones
//   real: to a child; xmm0 must arrive there
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UML_BYTES = 2696, XMM0 = 160, VALID = 512, SSE = 2 };

static int fake(void)
{
	static char ones[UML_BYTES];
	memset(ones, 0xff, sizeof ones);
	struct iovec io = {ones, sizeof ones};
	ptrace(PTRACE_SETREGSET, 7, (void *)NT_X86_XSTATE, &io);
	ptrace(PTRACE_GETREGSET, 7, (void *)NT_X86_XSTATE, &io);
	ptrace(PTRACE_SETREGSET, 7, (void *)NT_PRFPREG, &io);
	return 0;
}

static int real(void)
{
	static char registers[UML_BYTES];
	pid_t child = fork();
	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	struct iovec io = {registers, sizeof registers};
	if (ptrace(PTRACE_GETREGSET, child, (void *)NT_X86_XSTATE, &io)) {
		perror("get registers");
		return 1;
	}
	uint64_t valid, want = 0x1122334455667788, got = 0;
	memcpy(&valid, registers + VALID, sizeof valid);
	valid |= SSE;
	memcpy(registers + VALID, &valid, sizeof valid);
	memcpy(registers + XMM0, &want, sizeof want);
	if (ptrace(PTRACE_SETREGSET, child, (void *)NT_X86_XSTATE, &io)) {
		perror("set registers");
		return 1;
	}
	io.iov_len = sizeof registers;
	memset(registers, 0, sizeof registers);
	ptrace(PTRACE_GETREGSET, child, (void *)NT_X86_XSTATE, &io);
	memcpy(&got, registers + XMM0, sizeof got);
	errno = 0;
	long word = ptrace(PTRACE_PEEKUSER, child, NULL, NULL);
	printf("xmm0 is %#lx, a word was read: %d\n", (unsigned long)got, word != -1 || errno == 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}

int main(int argc, char **argv)
{
	return argc == 2 && !strcmp(argv[1], "fake") ? fake() : real();
}
