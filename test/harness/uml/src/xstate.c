// Preloaded into linux.uml, so that User-Mode Linux boots whatever the CPU is.
//
// User-Mode Linux before 6.14 gives its processes their registers in a buffer of
// 2696 bytes: all there was before AMX. The kernel takes NT_X86_XSTATE whole or
// not at all (kernel/ptrace.c, arch/x86/kernel/fpu/regset.c): on a CPU with AMX,
// where it has 11008 bytes, the write fails with EFAULT and the guest panics before
// init. A write that is too short is filled up here; all else passes as it is.
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#ifndef XSTATE_BYTES // a test says what CPU it plays
#define XSTATE_BYTES cpu_bytes()
#endif

enum {
	LEGACY_BYTES = 512, // the FXSAVE image; the bitmap of valid components follows
	// Components 0 to 7 and 9 lie within 2696 bytes (Intel SDM 1, 13.4 and 13.5).
	KNOWN = 0x2ff,
};

// cpu_bytes is the size of the components that the kernel has switched on.
__attribute__((unused)) static size_t cpu_bytes(void)
{
	unsigned a, b = 0, c, d;
	__get_cpuid_count(0xd, 0, &a, &b, &c, &d);
	return b;
}

long ptrace(enum __ptrace_request request, ...)
{
	static long (*next)(enum __ptrace_request, ...);
	static char whole[1 << 16];
	struct iovec filled;
	va_list arguments;
	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *addr = va_arg(arguments, void *), *data = va_arg(arguments, void *);
	va_end(arguments);

	if (!next)
		next = dlsym(RTLD_NEXT, "ptrace");
	if (request == PTRACE_SETREGSET && (uintptr_t)addr == NT_X86_XSTATE) {
		const struct iovec *given = data;
		size_t bytes = XSTATE_BYTES;
		if (given->iov_len < bytes && bytes <= sizeof whole && given->iov_len >= LEGACY_BYTES + sizeof(uint64_t)) {
			uint64_t valid;
			memcpy(whole, given->iov_base, given->iov_len);
			memcpy(&valid, whole + LEGACY_BYTES, sizeof valid);
			valid &= KNOWN; // of the others there is nothing but zeros
			memcpy(whole + LEGACY_BYTES, &valid, sizeof valid);
			filled = (struct iovec){whole, bytes};
			data = &filled;
		}
	}
	return next(request, pid, addr, data);
}
