package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

// What this version of systemd does not know yet, and what a directory with one unit lacks.
var unknown = regexp.MustCompile(`Unknown key 'DelegateSubgroup'|Unit \S+\.target not found`)

func analyze(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze")
	}
	out, _ := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput() // fails for what is unknown above
	return string(out)
}

func TestTheUnitHasNoSettingThatSystemdDoesNotTake(t *testing.T) {
	root := t.TempDir()
	unit := filepath.Join(root, "etc/systemd/system/evictd.service")
	text := testos.ReadFile(t, deploy+"evictd.service")
	for file, is := range map[string]struct {
		text []byte
		mode os.FileMode
	}{unit: {text, 0o644}, filepath.Join(root, "usr/bin/evictd"): {nil, 0o755}, filepath.Join(root, "bin/kill"): {nil, 0o755}, filepath.Join(root, "bin/dd"): {nil, 0o755}} {
		testos.Put(t, file, is.text, is.mode)
	}
	for line := range strings.Lines(analyze(t, "verify", "--root="+root, "evictd.service")) {
		if !unknown.MatchString(line) {
			t.Errorf("systemd-analyze verify: %s", line)
		}
	}
}

func TestTheExposureOfTheUnitIsAsDocumented(t *testing.T) {
	text := testos.ReadFile(t, "../../../docs/operations.md")
	said := regexp.MustCompile("`systemd-analyze security evictd` gives ([0-9.]+) of 10 .*by systemd ([0-9]+)\\)").FindSubmatch(text)
	if said == nil {
		t.Fatal("docs/operations.md does not say what systemd-analyze gives the unit any more")
	}
	if version := analyze(t, "--version"); !strings.HasPrefix(version, "systemd "+string(said[2])+" ") {
		t.Skipf("another systemd rates by other rules: %s", version)
	}
	out := analyze(t, "security", "--offline=yes", "--no-pager", deploy+"evictd.service")
	got := regexp.MustCompile(`Overall exposure level for evictd.service: ([0-9.]+)`).FindStringSubmatch(out)
	if got == nil || got[1] != string(said[1]) {
		t.Errorf("exposure %v, documented is %s:\n%s", got, said[1], out)
	}
}
