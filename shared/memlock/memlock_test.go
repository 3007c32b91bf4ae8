package memlock

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/testos"
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

// With little room at rest, most choices of a pod contained a collection.
func TestTheHeapMayGrowForAWhile(t *testing.T) {
	heap.later = 0
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	percent := func() int {
		p := debug.SetGCPercent(1)
		debug.SetGCPercent(p)
		return p
	}
	synctest.Test(t, func(t *testing.T) {
		wants := func(want int, what string) {
			t.Helper()
			synctest.Wait()
			if got := percent(); got != want {
				t.Errorf("%d %% %s, want %d %%", got, what, want)
			}
		}
		Settle(25, 50)
		Spare()
		wants(25, "during the start")
		time.Sleep(startTime)
		wants(50, "at rest")
		Spare()
		time.Sleep(spareTime / 2)
		Spare()
		wants(sparePercent, "while a pod may be chosen")
		time.Sleep(spareTime / 2)
		wants(50, "after that")
	})
}
