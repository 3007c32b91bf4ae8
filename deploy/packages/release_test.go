package packages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The chart of a release names its image by digest, with the release's version, and is the same file each time.
func TestTheChartOfAReleaseHasItsImage(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image.tar")
	const digest = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	if err := os.WriteFile(filepath.Join(filepath.Dir(image), "index.json"), []byte(`{"manifests": [{"digest": "`+digest+`"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, filepath.Dir(image), "tar", "-cf", image, "index.json")
	var packed [2]string
	for i := range packed {
		dir := t.TempDir()
		run(t, ".", "./chart.sh", "1.2.3", image, dir)
		contents, err := os.ReadFile(filepath.Join(dir, "evictd-1.2.3.tgz"))
		if err != nil {
			t.Fatal(err)
		}
		packed[i] = string(contents)
		out, err := helm(t, "template", "evictd", filepath.Join(dir, "evictd-1.2.3.tgz"))
		if err != nil || strings.Count(out, "image: ghcr.io/evictd/evictd@"+digest+"\n") < 2 || !strings.Contains(out, "app.kubernetes.io/version: \"1.2.3\"\n") {
			t.Errorf("error %v, want the image %s and the version in %s", err, digest, out)
		}
		if out, err := helm(t, "show", "chart", filepath.Join(dir, "evictd-1.2.3.tgz")); err != nil || !strings.Contains(out, "image: ghcr.io/evictd/evictd@"+digest) {
			t.Errorf("error %v, want the image %s in the annotations of %s", err, digest, out)
		}
	}
	if packed[0] != packed[1] {
		t.Error("the chart differs from one time to the next")
	}
}

// An exception to a vulnerability ends on its day: nothing else would bring it back to mind.
func TestExceptionsOfVulnerabilitiesExpire(t *testing.T) {
	exceptions := filepath.Join(t.TempDir(), "exceptions")
	tomorrow, yesterday := time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly), time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	if err := os.WriteFile(exceptions, []byte("GO-2026-0001 "+tomorrow+" not called\nGO-2026-0002 "+yesterday+" was not called\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for id, said := range map[string]string{"": "", "GO-2026-0001": "", "GO-2026-0002": "its exception has expired on " + yesterday, "GO-2026-0003": "no exception in .ci/vulnerabilities.txt"} {
		report := "No vulnerabilities found.\n"
		if id != "" {
			report = "=== Symbol Results ===\n\nVulnerability #1: " + id + "\n    Something\n"
		}
		out := run(t, ".", "bash", "-c", `EXCEPTIONS="$0" ../../.ci/vulnerabilities --stdin <<<"$1" || echo "exit $?"`, exceptions, report)
		if !strings.Contains(out, said) || strings.Contains(out, "exit 1") != (said != "") {
			t.Errorf("%s: %s, want %q", id, out, said)
		}
	}
}
