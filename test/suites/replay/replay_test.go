package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

// maxWait is for a loaded machine; unloaded all traces take half a minute.
const maxWait = 5 * time.Minute

// A program is an installed evictd with its plugins beside it.
type program struct {
	t      *testing.T
	binary string
	// tmp is where it may put things, as long as it takes them away.
	tmp string
	uid uint32
}

func install(t *testing.T) *program {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs real processes: run make test")
	}
	// Not t.TempDir: another user has to get there, and sockets want short paths.
	dir, err := os.MkdirTemp("", "evictd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &program{t: t, binary: filepath.Join(dir, "evictctl"), tmp: filepath.Join(dir, "tmp")}
	for _, d := range []string{dir, filepath.Join(dir, "plugins"), p.tmp} {
		testos.MkdirAll(t, d, 0o755)
		testos.Chmod(t, d, 0o755)
	}
	daemon.Install(t, daemon.Build(t, "evictctl"), p.binary)
	for _, name := range []string{"memory", "disk", "pid"} {
		daemon.Install(t, daemon.Build(t, name), filepath.Join(dir, "plugins", name))
	}
	return p
}

func (p *program) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(p.t.Context(), maxWait)
	p.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, p.binary, append([]string{"replay"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+p.tmp)
	if p.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.uid, Gid: p.uid}}
	}
	return cmd
}

// run returns the exit code and both outputs.
func (p *program) run(args ...string) (code int, out, errs string) {
	p.t.Helper()
	var stdout, stderr strings.Builder
	cmd := p.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	p.leftNothing()
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func (p *program) leftNothing() {
	p.t.Helper()
	left, err := os.ReadDir(p.tmp)
	if err != nil {
		p.t.Fatal(err)
	}
	if len(left) > 0 {
		p.t.Errorf("%d directories were left behind, such as %s", len(left), left[0].Name())
	}
}

func traces(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../traces", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	return files
}

func TestEveryRecordedDecision(t *testing.T) {
	p := install(t)
	began := time.Now()
	code, out, errs := p.run(append([]string{"--check"}, traces(t, "*")...)...)
	t.Logf("took %v", time.Since(began))
	if code != 0 || !strings.HasSuffix(out, "\n202 passed, 0 failed, 7 skipped\n") || strings.Count(out, "SKIP ") != 7 {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// Each trace is decided by the rules of the version that recorded it, or else of the newest; with
// those of 1.36 a trace of what 1.37 changed by default differs.
func TestEveryDecisionOfKubernetes137(t *testing.T) {
	p := install(t)
	files, err := filepath.Glob("../../traces137/*.json*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	if code, out, errs := p.run(append([]string{"--check"}, files...)...); code != 0 || out != "48 passed, 0 failed, 0 skipped\n" {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	trace := testos.ReadFile(t, "../../traces137/rule-sidecar-limit.json")
	for oracle, c := range map[string]struct {
		flags []string
		code  int
	}{"k8s.io/kubernetes v1.36.3": {nil, 1}, "unknown": {nil, 0}, "unnamed": {[]string{"--compatibility", "1.36"}, 1}} {
		file := filepath.Join(filepath.Dir(p.binary), "trace.json")
		other := strings.ReplaceAll(string(trace), "k8s.io/kubernetes v1.37.2 pkg/kubelet/eviction", oracle)
		testos.WriteFile(t, file, other, 0o600)
		if code, out, errs := p.run(append(c.flags, "--check", file)...); code != c.code {
			t.Errorf("%s: exit code %d, want %d\n%s%s", oracle, code, c.code, out, errs)
		}
	}
}

func TestDecisionsAsJSON(t *testing.T) {
	p := install(t)
	files := traces(t, "rule-reclaim-*.json")
	code, out, errs := p.run(append([]string{"--json"}, files...)...)
	if lines := strings.Count(out, "\n"); code != 0 || lines != len(files) || strings.Count(out, `"oracle":"evictd"`) != lines {
		t.Errorf("exit code %d, %d lines for %d files\n%s", code, lines, len(files), errs)
	}
}

func TestATraceThatIsNotDecidedAlike(t *testing.T) {
	p := install(t)
	good := testos.ReadFile(t, traces(t, "rule-reclaim-suffices.json")[0])
	bad := filepath.Join(t.TempDir(), "bad.json")
	testos.WriteFile(t, bad, strings.ReplaceAll(string(good), `"Attempting to reclaim`, `"Trying to reclaim`), 0o600)
	code, out, errs := p.run("--check", bad, filepath.Join(t.TempDir(), "absent.json"))
	if code != 1 || !strings.Contains(out, "FAIL "+bad+"\n") || !strings.Contains(out, `recorded "Trying to reclaim`) ||
		!strings.HasSuffix(out, "\n0 passed, 2 failed, 0 skipped\n") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

func TestWithoutRoot(t *testing.T) {
	p := install(t)
	const nobody = 65534
	p.uid = nobody
	if err := os.Chown(p.tmp, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(p.binary), "trace.json")
	daemon.Install(t, traces(t, "rule-reclaim-suffices.json")[0], file)
	if code, out, errs := p.run("--check", file); code != 0 || out != "1 passed, 0 failed, 0 skipped\n" {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

func TestAnInterruptLeavesNothing(t *testing.T) {
	p := install(t)
	var errs strings.Builder
	cmd := p.command(append([]string{"--check"}, traces(t, "rand-*")...)...)
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var plugins map[string]int
	for deadline := time.Now().Add(time.Minute); len(plugins) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no plugin was started")
		}
		plugins, _ = evictd.Children(cmd.Process.Pid)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || errs.String() != "evictctl: interrupted\n" {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	for name, pid := range plugins {
		if daemon.Alive(pid) {
			t.Errorf("plugin %s (%d) lives on", name, pid)
		}
	}
	p.leftNothing()
}

// A replay of a scenario with a vendor's plugin emptied the vendor's cache on the replaying machine.
func TestStepsOfAVendorRunOnlyIfTheyMay(t *testing.T) {
	p := install(t)
	daemon.Install(t, daemon.Build(t, "drive"), filepath.Join(filepath.Dir(p.binary), "plugins", "drive"))
	dir := t.TempDir()
	// 900 blocks are left, the step frees 3000 more.
	for name, text := range map[string]string{"spare": "900 10000", "trim": "3000", "used-u-a": "7"} {
		testos.WriteFile(t, filepath.Join(dir, name), text, 0o600)
	}
	file := filepath.Join(dir, "low.json")
	scenario := fmt.Sprintf(`{"config": {"evictionHard": {"acme.example/nvme.spare": "2k"}, "plugins": {"drive": {"config": {"dir": %q}}}},
		"pods": [{"metadata": {"name": "a", "namespace": "x", "uid": "u-a"}, "spec": {"containers": [{"name": "main"}]}}], "steps": [{"summary": {}}]}`, dir)
	testos.WriteFile(t, file, scenario, 0o600)
	for _, c := range []struct {
		args       []string
		want, none string
	}{
		{[]string{file}, "\n  reclaim     trim by drive: not run, reclaim frees things on this machine, allow it with --reclaim\n  ranking", "no pod has to go"},
		{[]string{"--reclaim", file}, "\n  reclaim     trim by drive\n              every threshold is satisfied now, no pod has to go\n", "\n  evicted"},
	} {
		code, out, errs := p.run(c.args...)
		if code != 0 || errs != "" || !strings.Contains(out, c.want) || strings.Contains(out, c.none) {
			t.Errorf("%v: exit code %d, want %q and no %q in\n%s%s", c.args, code, c.want, c.none, out, errs)
		}
	}
}

// A directory with a ranker alone, as documented, observed nothing, and no pod went.
func TestARankerOfOnesOwnHasTheOtherPluginsBesideIt(t *testing.T) {
	p := install(t)
	mine := filepath.Join(t.TempDir(), "mine")
	testos.Mkdir(t, mine, 0o700)
	daemon.Install(t, daemon.Build(t, "oldest"), filepath.Join(mine, "oldest"))
	doc := testos.ReadFile(t, "../../../docs/replay.md")
	file := filepath.Join(t.TempDir(), "what-if.yaml")
	testos.WriteFile(t, file, block(t, string(doc), "yaml"), 0o600)
	code, out, errs := p.run("--plugin-dir", mine, file)
	if code != 0 || errs != "" || !strings.Contains(out, "by oldest") || !strings.Contains(out, "\n  evicted") {
		t.Errorf("exit code %d, want a pod that oldest has put first:\n%s%s", code, out, errs)
	}
	p.leftNothing()
}

// The example of docs/replay.md does what stands there.
func TestTheDocumentedExample(t *testing.T) {
	p := install(t)
	doc := testos.ReadFile(t, "../../../docs/replay.md")
	file := filepath.Join(t.TempDir(), "what-if.yaml")
	testos.WriteFile(t, file, block(t, string(doc), "yaml"), 0o600)
	code, out, errs := p.run(file)
	if code != 0 || errs != "" {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if diff := cmp.Diff(block(t, string(doc), "text"), strings.TrimSuffix(out, "\n")); diff != "" {
		t.Errorf("(-documented +printed):\n%s", diff)
	}
}

// block returns the first code block of a language.
func block(t *testing.T, doc, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(doc, "```"+language+"\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("no block of %s", language)
	}
	return text
}
