package plugindir

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"
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
