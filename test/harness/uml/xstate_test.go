package uml

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/testos"
)

// needCompiler skips where User-Mode Linux cannot run either.
func needCompiler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil && os.Getenv("EVICTD_TEST_ROOT") != "1" || runtime.GOARCH != "amd64" {
		t.Skip("needs gcc and an x86 CPU")
	}
}

// registers is testdata/registers.c, compiled.
func registers(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "registers")
	compile(t, "-o", program, "testdata/registers.c")
	return program
}

// write runs the program with libraries in front of the C library.
func write(t *testing.T, program, how string, preload ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, how)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+strings.Join(preload, ":"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// On a CPU with AMX the guests of User-Mode Linux panicked before init: "ptrace set
// fp regs failed, errno = 14". The same write on a made-up CPU of either kind.
func TestRegistersOfEveryCPUArriveWhole(t *testing.T) {
	needCompiler(t)
	program, arrives := registers(t), filepath.Join(t.TempDir(), "arrives.so")
	compile(t, "-shared", "-fPIC", "-o", arrives, "testdata/arrives.c")
	const others = `0x4204 for 7: 0x202, 2696 bytes, components 0xffffffffffffffff, 2176 given and 0 zero
0x4205 for 7: 0x2, 2696 bytes, components 0xffffffffffffffff, 2176 given and 0 zero
`
	for name, c := range map[string]struct{ bytes, want string }{
		"AMX: filled up":             {"11008", "0x4205 for 7: 0x202, 11008 bytes, components 0x2ff, 2176 given and 8312 zero\n"},
		"AVX-512: as it is":          {"2696", "0x4205 for 7: 0x202, 2696 bytes, components 0xffffffffffffffff, 2176 given and 0 zero\n"},
		"AVX: as it is":              {"832", "0x4205 for 7: 0x202, 2696 bytes, components 0xffffffffffffffff, 2176 given and 0 zero\n"},
		"larger than ours: as it is": {"65544", "0x4205 for 7: 0x202, 2696 bytes, components 0xffffffffffffffff, 2176 given and 0 zero\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := write(t, program, "fake", buildXstate(t, t.TempDir(), "-DXSTATE_BYTES="+c.bytes), arrives)
			if diff := cmp.Diff(c.want+others, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// The same on the CPU that is there, with a process that gets the registers. Without
// the library the write fails on a CPU with AMX, and on no other.
func TestRegistersReachAProcess(t *testing.T) {
	needCompiler(t)
	const want = "xmm0 is 0x1122334455667788, a word was read: 1\n"
	program := registers(t)
	if got, err := write(t, program, "real", buildXstate(t, t.TempDir())); err != nil || got != want {
		t.Errorf("with the library: %q, %v; want %q", got, err, want)
	}
	info := testos.ReadFile(t, "/proc/cpuinfo")
	bare := want
	if strings.Contains(string(info), " amx_tile") {
		bare = "set registers: Bad address\n"
	}
	if got, _ := write(t, program, "real"); got != bare {
		t.Errorf("without: %q, want %q", got, bare)
	}
}
