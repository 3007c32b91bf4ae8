package packages

import (
	"crypto/sha256"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func sha(r io.Reader) ([]byte, error) {
	sum := sha256.New()
	_, err := io.Copy(sum, r)
	return sum.Sum(nil), err
}

// Whoever has the commit can make the package and see that it is the one that was released.
func TestTwoClonesMakeTheSamePackages(t *testing.T) {
	dist(t, "*.deb")
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("part of make nightly")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for _, place := range []string{"here", "elsewhere/and/deeper"} {
		clone := filepath.Join(t.TempDir(), place)
		run(t, root, "git", "clone", "--quiet", ".", clone)
		run(t, clone, "make", "deb", "rpm", "sbom", "chart")
		for _, kind := range []string{"*.deb", "*.rpm", "*.json", "*.tar", "*.tgz"} {
			made := newest(t, filepath.Join(clone, "dist", kind))
			f, err := os.Open(made)
			if err != nil {
				t.Fatal(err)
			}
			sum := digest(t, f)
			_ = f.Close()
			if former := sums[filepath.Base(made)]; former != "" && former != sum {
				t.Errorf("%s differs from clone to clone: %s, %s", filepath.Base(made), former, sum)
			}
			sums[filepath.Base(made)] = sum
		}
	}
	if len(sums) != 5 {
		t.Errorf("%v, want five files with the same names in both clones", sums)
	}
	t.Logf("%v", sums)
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	// What make has given this test is not that of another checkout.
	for _, e := range os.Environ() {
		if k, _, _ := strings.Cut(e, "="); k != "MAKEFLAGS" && k != "MAKELEVEL" && k != "MFLAGS" && k != "VERSION" && k != "COMMIT" {
			cmd.Env = append(cmd.Env, e)
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return string(out)
}
