package features

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"
)

// since is the kernel with which each call came. One that is reported to be there on an older
// one was not tried, one that is missing on a newer one is forbidden here, and says so.
var since = map[string][2]int{"pidfd": {5, 3}, "openat2": {5, 6}, "quotactl_fd": {5, 14}, "process_mrelease": {5, 15}, "Landlock": {5, 13}}

func TestFeaturesAreThoseOfThisKernel(t *testing.T) {
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(uname.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	found := map[string]Feature{}
	for _, f := range Find(nodefs.FS{Root: "/"}) {
		found[f.Name] = f
		if f.Gives == "" || !f.There && f.Detail == "" {
			t.Errorf("%+v does not say what it is for, or why it is not there", f)
		}
	}
	for name, first := range since {
		f := found[name]
		newer := major > first[0] || major == first[0] && minor >= first[1]
		if f.There && !newer {
			t.Errorf("%s is there, on Linux %d.%d", name, major, minor)
		}
		if !f.There && newer && !strings.Contains(f.Detail, "seccomp") && !strings.Contains(f.Detail, "boot") && !strings.Contains(f.Detail, "does not have it") {
			t.Errorf("%s is not there, on Linux %d.%d: %s", name, major, minor, f.Detail)
		}
	}
	_, err := os.ReadFile("/proc/pressure/memory")
	if f := found["PSI"]; f.There != (err == nil) {
		t.Errorf("%+v, and to read it: %v", f, err)
	}
	hierarchy, err := nodefs.FS{Root: "/"}.MemoryHierarchy()
	if err != nil {
		t.Skip(err)
	}
	for name, file := range map[string]string{"memory events": "cgroup.event_control", "memory.reclaim": "memory.reclaim"} {
		_, err := os.Stat(hierarchy.Path(file))
		if f := found[name]; f.There != (err == nil) {
			t.Errorf("%+v, and its file: %v", f, err)
		}
	}
}

func TestANodeWithoutAnyOfItSaysWhy(t *testing.T) {
	for _, f := range Find(nodefs.FS{Root: t.TempDir()}) {
		switch f.Name {
		case "memory events", "PSI", "memory.reclaim":
			if f.There || f.Detail == "" {
				t.Errorf("%+v, want it not there, and why", f)
			}
		}
	}
}
