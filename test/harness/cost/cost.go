// Package cost limits the memory and time that a parser may spend on an input, so that a fuzz
// target also finds small inputs with a high cost, not only those that crash.
package cost

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// freeBytes is the number of bytes that any input may allocate, perByte that for each of its
	// bytes. Both count all allocations, also those that were freed.
	freeBytes = 128 << 20
	perByte   = 1 << 10
	// most limits the processor time of an input, maxTime the wait for one that never ends.
	most    = 2 * time.Second
	maxTime = time.Minute
)

// Within calls parse for an input of size bytes. It fails the test if that costs more than such
// an input may.
func Within(t *testing.T, size int, parse func()) {
	t.Helper()
	bytes, spent := allocated(), cpu(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		parse()
	}()
	late := time.NewTimer(maxTime)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		t.Fatalf("%d bytes of input take longer than %v", size, maxTime)
	}
	if bytes, limit := allocated()-bytes, uint64(freeBytes+perByte*size); bytes > limit {
		t.Errorf("%d bytes of input had %d MiB allocated, want at most %d", size, bytes>>20, limit>>20)
	}
	if spent := cpu(t) - spent; spent > most {
		t.Errorf("%d bytes of input took %v of processor time, want at most %v", size, spent, most)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// cpu returns the processor time of the whole process: a fuzzer's worker handles one input at a
// time.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
