package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/harness/testos"
)

// A vendor's image has its plugin and no shell: evictd's own program copies it.
func TestPluginsAreInstalledWholeAndExecutable(t *testing.T) {
	dir := t.TempDir()
	from, link, into := filepath.Join(dir, "vendor"), filepath.Join(dir, "memory"), filepath.Join(dir, "plugins")
	for range 2 { // the second time over what is there
		testos.WriteFile(t, from, "program", 0o600)
		_ = os.Remove(link)
		testos.Symlink(t, "../builtin", link)
		if code := execute(t.Context(), []string{"plugins", "install", from, link, into}, os.Stdout, os.Stderr); code != exitFine {
			t.Fatalf("exit code %d", code)
		}
		info, err := os.Stat(filepath.Join(into, "vendor"))
		if err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%v, error %v, want mode 0755", info, err)
		}
		if to, err := os.Readlink(filepath.Join(into, "memory")); err != nil || to != "../builtin" {
			t.Errorf("link to %q, error %v, want ../builtin", to, err)
		}
		if left, err := os.ReadDir(into); err != nil || len(left) != 2 {
			t.Errorf("%v, error %v, want the two", left, err)
		}
	}
	if code := execute(t.Context(), []string{"plugins", "install", "acme=" + from, into}, os.Stdout, os.Stderr); code != exitFine {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(filepath.Join(into, "acme")); err != nil {
		t.Error(err)
	}
	if code := execute(t.Context(), []string{"plugins", "install", "--link", "later=/images/later", into}, os.Stdout, os.Stderr); code != exitFine {
		t.Errorf("exit code %d", code)
	}
	if to, err := os.Readlink(filepath.Join(into, "later")); err != nil || to != "/images/later" {
		t.Errorf("link to %q, error %v, want /images/later", to, err)
	}
	for name, there := range map[string]bool{"memory": false, "vendor": true, "acme": true} { // it was the only other link
		if _, err := os.Lstat(filepath.Join(into, name)); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %t", name, err, there)
		}
	}
	var said strings.Builder
	if code := execute(t.Context(), []string{"plugins", "install", filepath.Join(dir, "absent"), into}, &said, &said); code != exitFailure || !strings.Contains(said.String(), "absent") {
		t.Errorf("exit code %d: %q, want %d and the file's name", code, said.String(), exitFailure)
	}
}
