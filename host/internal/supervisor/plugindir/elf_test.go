package plugindir

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestWhatAFileNeeds(t *testing.T) {
	whole, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	size := uint64(len(whole))
	need := elfSize(bytes.NewReader(whole), int64(size))
	if need == 0 || need > size {
		t.Fatalf("a program of %d bytes needs %d", size, need)
	}
	for _, n := range []uint64{1, 3, 4, 6, 20, 64, 500, size / 2, need - 1} {
		if got := elfSize(bytes.NewReader(whole[:n]), int64(n)); got <= n {
			t.Errorf("the first %d bytes need %d, want more", n, got)
		}
	}
	if got := elfSize(strings.NewReader("#!/bin/sh\n"), 10); got != 0 {
		t.Errorf("a script needs %d bytes, want nothing known", got)
	}
}

func FuzzWhatAFileNeeds(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Add(append([]byte("\x7fELF\x01\x02"), bytes.Repeat([]byte{0xff}, 200)...))
	f.Fuzz(func(t *testing.T, content []byte) {
		elfSize(bytes.NewReader(content), int64(len(content)))
	})
}
