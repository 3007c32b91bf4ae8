package printable

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

func TestErrorsAreClipped(t *testing.T) {
	if err := Clip(nil); err != nil {
		t.Error(err)
	}
	plain := errors.New("spec.priority: want a number")
	if got := Clip(plain); !errors.Is(got, plain) || got.Error() != plain.Error() {
		t.Errorf("%v, want it as it is", got)
	}
	long := &fs.PathError{Op: strings.Repeat("é", 5000), Err: fs.ErrNotExist}
	if got := Clip(long); len(got.Error()) > maxText+3 || !errors.Is(got, fs.ErrNotExist) || !strings.HasSuffix(got.Error(), "é...") {
		t.Errorf("%d bytes, %v", len(got.Error()), got)
	}
	if got, want := ClipText("a\x1b[31m\nb\x00"), "a\uFFFD[31m b\uFFFD"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := ClipAll([]error{nil, plain, nil, plain, plain}, 2); strings.Count(err.Error(), "\n") != 2 || !strings.HasSuffix(err.Error(), "and 1 more") {
		t.Errorf("%v", err)
	}
	if err := ClipAll([]error{nil}, 2); err != nil {
		t.Error(err)
	}
}
