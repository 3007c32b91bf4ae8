package verify

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evictd/evictd/shared/conformance"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

// atOnce bounds the plugins that are verified at a time, more than there are processors: most
// of a run is waiting.
const atOnce = "5"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// nobody is the user id of a user without any rights.
const nobody = 65534

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	if os.Getuid() != 0 {
		t.Fatal("EVICTD_TEST_ROOT=1 without being root")
	}
}

// outcome holds the exit code and the output of a verify.
type outcome struct {
	code      int
	out, errs string
}

// verify runs the command as uid.
func verify(t *testing.T, evictctl string, uid uint32, args ...string) outcome {
	t.Helper()
	var out, errs strings.Builder
	cmd := exec.CommandContext(t.Context(), evictctl, append([]string{"plugins", "verify"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Error(err) // not Fatal: several run at once
		return outcome{code: -1}
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func TestOurPluginsPass(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	runtime := fakecri.Start(t)
	runtime.SetImageDir(t.TempDir())
	evictctl := daemon.Build(t, "evictctl")
	mounts := filepath.Join(t.TempDir(), "mounts.json")
	testos.WriteFile(t, mounts, `{"paths": {"shm": "/dev/shm"}}`, 0o600)
	for name, flags := range map[string][]string{
		"memory":   nil,
		"disk":     {"--reclaim", "--runtime-endpoint", runtime.Endpoint()}, // it frees what the fake runtime has
		"pid":      nil,
		"mounts":   {"--config", mounts},
		"pressure": nil,
		"oldest":   {"--auto-mtls=false"},
	} {
		file := daemon.Build(t, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := verify(t, evictctl, 0, append(flags, file)...)
			if got.code != 0 || !strings.Contains(got.out, " 0 failed") {
				t.Errorf("exit code %d, %s%s", got.code, got.errs, got.out)
			}
			lines := strings.Split(strings.TrimSpace(got.out), "\n")
			t.Logf("plugins verify %s: %s", name, lines[len(lines)-1])
			if strings.Contains(got.out, "\nnote") {
				t.Errorf("a note about a plugin on a node with all that it needs:\n%s", got.out)
			}
		})
	}
}

// Verifying needs no rights, if the plugin needs none.
func TestAnybodyMayVerify(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	dir, err := os.MkdirTemp("", "verify") // t.TempDir is below a directory of root's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	testos.Chmod(t, dir, 0o755)
	for _, name := range []string{"evictctl", "memory"} {
		install(t, daemon.Build(t, name), filepath.Join(dir, name))
	}
	got := verify(t, filepath.Join(dir, "evictctl"), nobody, "--json", filepath.Join(dir, "memory"))
	var report conformance.Report
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatalf("%v: %s%s", err, got.errs, got.out)
	}
	if got.code != 0 || !report.OK() || report.Plugin.Name != "memory" {
		t.Errorf("exit code %d, %s%s", got.code, got.errs, got.out)
	}
}

func install(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}

// The plugins that tests of the host use do one thing wrong each.
func TestFaultyPluginsAreReported(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	evictctl, faulty := daemon.Build(t, "evictctl"), daemon.Build(t, "broken")
	for name, c := range map[string]struct{ only, want string }{
		"refuses-host":       {"describe", `needs a host with feature "time-travel"`},
		"crashes-in-observe": {"observe", "the process ended (exit status 2); the end of its log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), name)
			testos.Symlink(t, faulty, path)
			got := verify(t, evictctl, 0, "--only", c.only, path)
			if got.code != 1 || !strings.Contains(got.out, c.want) || !strings.Contains(got.errs, "fails") {
				t.Errorf("exit code %d, want %q in\n%s%s", got.code, c.want, got.errs, got.out)
			}
		})
	}
}
