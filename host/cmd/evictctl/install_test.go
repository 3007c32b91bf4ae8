package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/shared/testos"
)

// A vendor's image has its plugin and no shell: evictd's own program copies it.
func TestPluginsAreInstalledWholeAndExecutable(t *testing.T) {
	dir := t.TempDir()
	from, link, into := filepath.Join(dir, "vendor"), filepath.Join(dir, "memory"), filepath.Join(dir, "plugins")
	testos.Symlink(t, "vendor", link)
	for range 2 { // the second time over what is there
		testos.WriteFile(t, from, "program", 0o600)
		if code := execute(t.Context(), []string{"plugins", "install", from, link, into}, os.Stdout, os.Stderr); code != command.ExitFine {
			t.Fatalf("exit code %d", code)
		}
		for _, name := range []string{"vendor", "memory"} { // a link in the image means another file elsewhere
			info, err := os.Lstat(filepath.Join(into, name))
			if err != nil || info.Mode() != 0o755 {
				t.Errorf("%s: %v, error %v, want a regular file with mode 0755", name, info, err)
			}
		}
		if left, err := os.ReadDir(into); err != nil || len(left) != 2 {
			t.Errorf("%v, error %v, want the two", left, err)
		}
	}
	if code := execute(t.Context(), []string{"plugins", "install", "acme=" + from, into}, os.Stdout, os.Stderr); code != command.ExitFine {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(filepath.Join(into, "acme")); err != nil {
		t.Error(err)
	}
	testos.Symlink(t, "../former", filepath.Join(into, "former"))
	if code := execute(t.Context(), []string{"plugins", "install", "--link", "later=/images/later", into}, os.Stdout, os.Stderr); code != command.ExitFine {
		t.Errorf("exit code %d", code)
	}
	if to, err := os.Readlink(filepath.Join(into, "later")); err != nil || to != "/images/later" {
		t.Errorf("link to %q, error %v, want /images/later", to, err)
	}
	for name, there := range map[string]bool{"former": false, "memory": true, "vendor": true, "acme": true} { // only links go
		if _, err := os.Lstat(filepath.Join(into, name)); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %t", name, err, there)
		}
	}
	var said strings.Builder
	if code := execute(t.Context(), []string{"plugins", "install", filepath.Join(dir, "absent"), into}, &said, &said); code != command.ExitFailure || !strings.Contains(said.String(), "absent") {
		t.Errorf("exit code %d: %q, want %d and the file's name", code, said.String(), command.ExitFailure)
	}
}

// A file that was not as wanted in a vendor's image kept the pod, and so evictd, from starting: a missing one, a pipe,
// one that is larger than the container's memory. A link was followed in evictd's own container.
func TestWhatIsWrongInAnImageIsLeftForEvictd(t *testing.T) {
	for name, c := range map[string]struct {
		put  func(t *testing.T, file, stage string)
		says string // "" if it is copied
	}{
		"a plugin":     {func(t *testing.T, file, _ string) { testos.WriteFile(t, file, "program", 0o755) }, ""},
		"without mode": {func(t *testing.T, file, _ string) { testos.WriteFile(t, file, "program", 0o600) }, ""},
		"a link to a good file": {func(t *testing.T, file, _ string) {
			testos.WriteFile(t, file+"-1", "program", 0o755)
			testos.Symlink(t, "acme-1", file)
		}, ""},
		"missing":         {func(*testing.T, string, string) {}, "no such file or directory"},
		"a dangling link": {func(t *testing.T, file, _ string) { testos.Symlink(t, "nowhere", file) }, "no such file or directory"},
		"a loop of links": {func(t *testing.T, file, _ string) { testos.Symlink(t, "acme", file) }, "too many levels of symbolic links"},
		"below a file": {func(t *testing.T, file, _ string) {
			testos.WriteFile(t, file+"-1", "", 0o755)
			testos.Symlink(t, "acme-1/x", file)
		}, "not a directory"},
		"a pipe":      {func(t *testing.T, file, _ string) { must(t, syscall.Mkfifo(file, 0o755)) }, "is a pipe, want a regular file"},
		"a directory": {func(t *testing.T, file, _ string) { testos.Mkdir(t, file, 0o755) }, "is a directory, want a regular file"},
		"a device":    {func(t *testing.T, file, _ string) { testos.Symlink(t, "/dev/zero", file) }, "is a device, want a regular file"},
		"endless":     {func(t *testing.T, file, _ string) { testos.Symlink(t, "/proc/self/mem", file) }, "is a file of the kernel's, want a regular file"},
		"empty":       {func(t *testing.T, file, _ string) { testos.WriteFile(t, file, "", 0o755) }, "is empty, want an executable"},
		"of 1 GiB": {func(t *testing.T, file, _ string) {
			testos.WriteFile(t, file, "program", 0o755)
			must(t, os.Truncate(file, 1<<30))
		}, "has 1073741824 bytes, want at most 536870912"},
		"a link to another plugin": {func(t *testing.T, file, stage string) {
			testos.WriteFile(t, filepath.Join(stage, "other"), "program", 0o755)
			testos.Symlink(t, filepath.Join(stage, "other"), file)
		}, "other\", want a file of the image"},
		"that may not be read": {func(t *testing.T, file, _ string) {
			if os.Geteuid() == 0 {
				t.Skip("root reads it")
			}
			testos.WriteFile(t, file, "program", 0)
		}, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			image, stage := t.TempDir(), t.TempDir()
			file, to := filepath.Join(image, "acme"), filepath.Join(stage, "acme")
			c.put(t, file, stage)
			testos.WriteFile(t, to, "a former one", 0o755)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan int, 1)
			go func() {
				ended <- execute(ctx, []string{"plugins", "install", "--stay", "acme=" + file, stage}, io.Discard, io.Discard)
			}()
			text := ""
			for began := time.Now(); text == "" || text == "a former one"; time.Sleep(time.Millisecond) {
				raw, _ := os.ReadFile(to)
				if text = string(raw); time.Since(began) > 10*time.Second {
					t.Fatalf("after 10 s %q is there", text)
				}
			}
			select {
			case code := <-ended:
				t.Errorf("ended with %d, want it to stay", code)
			case <-time.After(50 * time.Millisecond):
			}
			cancel()
			if code := <-ended; code != command.ExitFine {
				t.Errorf("exit code %d", code)
			}
			_, err := plugindir.Executable(to)
			switch {
			case c.says == "" && (err != nil || text != "program"):
				t.Errorf("%q, %v, want the program", text, err)
			case c.says != "" && (!strings.HasPrefix(fmt.Sprint(err), "not copied from its image: "+file+": ") || !strings.HasSuffix(err.Error(), c.says)):
				t.Errorf("%v, want %s in it", err, c.says)
			}
		})
	}
}

// A directory that cannot be written to is no fault of the image: the container is started again.
func TestAStageThatCannotBeWrittenToIsAFailure(t *testing.T) {
	dir := t.TempDir()
	testos.WriteFile(t, filepath.Join(dir, "stage"), "", 0o600)
	var said strings.Builder
	if code := execute(t.Context(), []string{"plugins", "install", "--stay", "acme=/proc/self/exe", filepath.Join(dir, "stage")}, &said, &said); code != command.ExitFailure {
		t.Errorf("exit code %d: %s, want %d", code, said.String(), command.ExitFailure)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
