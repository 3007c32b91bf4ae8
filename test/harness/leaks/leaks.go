// Package leaks counts what a test has to leave as it has found it: goroutines and
// descriptors of the process. They are those of all tests that run, so who counts them
// runs alone, or asks for far less than one for each time that something is done.
package leaks

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// maxWait bounds the wait of None for goroutines and files that are about to end.
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

// MoreThan reports whether there is more of anything than there was.
func (c Count) MoreThan(was Count) bool { return c.Goroutines > was.Goroutines || c.Files > was.Files }

// None fails a test that leaves goroutines behind. It goes first in a test.
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
