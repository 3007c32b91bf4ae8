package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/shared/testos"
)

// What this machine may have of evictd's is no part of a test.
func TestMain(m *testing.M) {
	program.OwnFile = "/nonexistent"
	os.Exit(m.Run())
}

func evictd(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = program.Execute(t.Context(), newRoot(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestBadUse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "evictd.yaml")
	testos.WriteFile(t, file, "mode: k8s\nevictionHrad: {}\n", 0o600)
	badFile := file + `: evictionHrad: unknown field, want "evictionHard"` + "\n" + file + `: mode: "k8s": want "cri" or "kubernetes"`
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no command":        {[]string{}, "no command given, want run or version (evictd --help)"},
		"unknown command":   {[]string{"rnu"}, "unknown command \"rnu\" for \"evictd\"\nDid you mean this?\nrun"},
		"unknown flag":      {[]string{"run", "--evict"}, "unknown flag: --evict, see evictd run --help"},
		"flag of a key":     {[]string{"run", "--run-dir=/r"}, "unknown flag: --run-dir, set runDir in the file of --config"},
		"flag without word": {[]string{"run", "--config"}, "flag needs an argument: --config, see evictd run --help"},
		"bad flags, all at once": {
			[]string{"run", "--dry-run=maybe", "--eviction-hard", "memory.available>1Gi"},
			"--dry-run: \"maybe\": want true or false\n--eviction-hard: \"memory.available>1Gi\": want signal<value, comma-separated",
		},
		"a bad file":                 {[]string{"run", "--config", file}, badFile},
		"a file that does not exist": {[]string{"run", "--config", "/nonexistent"}, "--config: /nonexistent: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			var want strings.Builder
			for line := range strings.SplitSeq(c.want, "\n") {
				fmt.Fprintf(&want, "evictd: %s\n", line)
			}
			code, out, errs := evictd(t, c.args...)
			if diff := cmp.Diff(want.String(), errs); diff != "" || code != command.ExitUsage || out != "" {
				t.Errorf("%q: exit code %d, %s (-want +got):\n%s", c.args, code, out, diff)
			}
		})
	}
}

func TestWithoutConfigTheFileOfTheDaemonCounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "evictd.yaml")
	testos.WriteFile(t, file, "no-field: 1\n", 0o600)
	program.OwnFile = file
	t.Cleanup(func() { program.OwnFile = "/nonexistent" })
	if _, _, errs := evictd(t, "run"); !strings.Contains(errs, file+`: "no-field": unknown field`) {
		t.Errorf("%q, want what is wrong with %s", errs, file)
	}
}

func TestVersion(t *testing.T) {
	former := *program
	t.Cleanup(func() { *program = former })
	program.Version, program.Commit = "v1.2.3", "abc"
	code, out, _ := evictd(t, "version")
	if !strings.HasPrefix(out, "evictd v1.2.3\ncommit abc\ngo go1.") || !strings.HasSuffix(out, "\nprotocol 1\n") || code != command.ExitFine {
		t.Errorf("%d: %s", code, out)
	}
}

func TestRunWithoutPluginDirectory(t *testing.T) {
	dir := t.TempDir()
	testos.WriteFile(t, filepath.Join(dir, "evictd.yaml"), fmt.Sprintf("{pluginDir: %[1]s/absent, podManifestDir: %[1]s, kubeletRootDir: %[1]s, runDir: %[1]s/run, stateDir: %[1]s/state}", dir), 0o600)
	code, _, errs := evictd(t, "run", "--config", filepath.Join(dir, "evictd.yaml"))
	if code != command.ExitFailure || !strings.Contains(errs, "does not exist, want a directory with the plugins' executables (pluginDir)") {
		t.Errorf("exit code %d, %s, want 1 and what is missing", code, errs)
	}
}
