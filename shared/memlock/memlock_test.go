package memlock

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/harness/testos"
)

// The program of a paged-out evictd was read from a busy disk while the kernel's OOM killer was first.
func TestTheWholeProgramIsLocked(t *testing.T) {
	if err := Refused(); err != nil {
		t.Skip(err)
	}
	if err := All(); err != nil {
		t.Fatal(err)
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	smaps := testos.ReadFile(t, "/proc/self/smaps")
	mapping := regexp.MustCompile(`(?ms)^[0-9a-f]+-[0-9a-f]+ r([-w])([-x])p [^\n]* ` + regexp.QuoteMeta(program) + `$.*?^Size: +([0-9]+) kB$.*?^Rss: +([0-9]+) kB$.*?^VmFlags: ([^\n]*)$`)
	locked := 0
	for _, m := range mapping.FindAllStringSubmatch(string(smaps), -1) {
		if m[1] == "w" {
			continue
		}
		if m[3] != m[4] || !strings.Contains(m[5], "lo") {
			t.Errorf("a mapping of the program with mode %s has %s of %s kB in memory, flags %s, want all, locked", m[2], m[4], m[3], m[5])
		}
		locked++
	}
	if locked < 2 {
		t.Errorf("%d mappings of the program, want its code and its constants", locked)
	}
}
