package plugindir

import (
	"bytes"
	"slices"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

func TestATruncatedProgram(t *testing.T) {
	whole := testos.ReadFile(t, "/proc/self/exe")
	isTruncated := func(content []byte) bool { return truncated(bytes.NewReader(content), int64(len(content))) }
	for _, n := range []int{1, 3, 4, 6, 20, 64, 500, len(whole) / 2, len(whole) - 1} {
		if !isTruncated(whole[:n]) {
			t.Errorf("the first %d of %d bytes of a program are not truncated", n, len(whole))
		}
	}
	for name, content := range map[string][]byte{
		"a program": whole, "a program and more": append(slices.Clip(whole), 0),
		"a script": []byte("#!/bin/sh\n"), "one letter": []byte("x"),
		"rubbish after the magic": append([]byte("\x7fELF\x09\x09"), make([]byte, 60)...),
	} {
		if isTruncated(content) {
			t.Errorf("%s is truncated", name)
		}
	}
}

func FuzzATruncatedProgram(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Add(append([]byte("\x7fELF\x01\x02"), bytes.Repeat([]byte{0xff}, 200)...))
	f.Fuzz(func(_ *testing.T, content []byte) {
		truncated(bytes.NewReader(content), int64(len(content)))
	})
}
