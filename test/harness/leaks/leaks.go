// Package leaks counts goroutines and descriptors, of which a test must not leave any behind. It
// counts those of the whole process, so a test that uses it must run alone, or only check for
// far fewer than one leak per operation.
package leaks

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// maxWait limits the time that None waits for goroutines that are about to end.
const maxWait = 10 * time.Second

// A Count holds the numbers of goroutines and open files of the process.
type Count struct{ Goroutines, Files int }

// Now counts.
func Now(t testing.TB) Count {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return Count{runtime.NumGoroutine(), len(files)}
}

// MoreThan reports whether either number is larger than before.
func (c Count) MoreThan(was Count) bool { return c.Goroutines > was.Goroutines || c.Files > was.Files }

// None fails a test that leaves goroutines behind. Call it first in the test.
func None(t testing.TB) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for begin := time.Now(); runtime.NumGoroutine() > before; <-tick.C {
			if time.Since(begin) > maxWait {
				stacks := make([]byte, 1<<20)
				t.Errorf("goroutines left, %d at the start:\n%s", before, stacks[:runtime.Stack(stacks, true)])
				return
			}
		}
	})
}
