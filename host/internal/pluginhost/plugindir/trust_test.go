package plugindir

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

type fakeFile struct {
	fs.FileInfo
	mode fs.FileMode
	uid  uint32
}

func (f fakeFile) Mode() fs.FileMode { return f.mode }
func (f fakeFile) IsDir() bool       { return f.mode.IsDir() }
func (f fakeFile) Sys() any          { return &syscall.Stat_t{Uid: f.uid} }

func TestOwner(t *testing.T) {
	const self, other = 1000, 1001
	for name, c := range map[string]struct {
		file fakeFile
		last bool
		want string
	}{
		"root's":                     {fakeFile{mode: 0o755, uid: 0}, true, ""},
		"our own":                    {fakeFile{mode: 0o700, uid: self}, true, ""},
		"somebody else's":            {fakeFile{mode: 0o755, uid: other}, true, "/p: owned by uid 1001, want root (0) or the host's user (1000)"},
		"writable by the group":      {fakeFile{mode: 0o775, uid: 0}, true, "/p: mode 0775 is writable by others than its owner, want at most 0755 (chmod go-w)"},
		"root's sticky parent":       {fakeFile{mode: 0o777 | fs.ModeDir | fs.ModeSticky, uid: 0}, false, ""},
		"sticky and the last":        {fakeFile{mode: 0o777 | fs.ModeDir | fs.ModeSticky, uid: 0}, true, "/p: mode 0777"},
		"our own sticky parent":      {fakeFile{mode: 0o777 | fs.ModeDir | fs.ModeSticky, uid: self}, false, "/p: mode 0777"},
		"a link has no mode":         {fakeFile{mode: 0o777 | fs.ModeSymlink, uid: 0}, false, ""},
		"a link of somebody":         {fakeFile{mode: 0o777 | fs.ModeSymlink, uid: other}, false, "owned by uid 1001"},
		"everything wrong, all said": {fakeFile{mode: 0o777, uid: other}, true, "(1000)\n/p: mode 0777"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkOwner("/p", c.file, self, c.last)
			if (err == nil) != (c.want == "") {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %q, want %q in it", err, c.want)
				}
			}
		})
	}
}

// "lstat /usr/libexec/evictd/staged/acme: no such file" did not say that the pull of an image had failed.
func TestAPluginWhoseImageIsNotThereNamesItsContainer(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "acme")
	testos.Symlink(t, staged+"acme", link)
	_, err := Executable(link)
	if want := "the container plugin-acme of this pod has not copied it yet, see kubectl describe pod: "; !strings.HasPrefix(fmt.Sprint(err), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// Only what Stage wrote is shown of a file, and nothing of it reaches a terminal.
func TestReasonsAreShortAndPrintable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "acme")
	for text, want := range map[string]string{
		notCopied + "/acme: no such file or directory": notCopied + "/acme: no such file or directory",
		notCopied + "\x1b[2J\n":                        notCopied + "\uFFFD[2J ",
		notCopied + strings.Repeat("x", 5000):          notCopied + strings.Repeat("x", 900),
		"password: " + notCopied:                       file + ": mode 0400 is not executable",
		notCopied + strings.Repeat("x", 1<<20):         file + ": mode 0400 is not executable",
	} {
		testos.Put(t, file, text, 0o400)
		_, err := Executable(file)
		if said := fmt.Sprint(err); !strings.HasPrefix(said, want) || len(said) > 1100 {
			t.Errorf("%.100q: %.100q of %d bytes, want %.100q and at most 1100", text, said, len(said), want)
		}
	}
}
