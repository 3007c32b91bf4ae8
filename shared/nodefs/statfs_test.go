package nodefs

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func TestStatfs(t *testing.T) {
	root := t.TempDir()
	write(t, root, "var/lib/kubelet/pods/x", "")
	got, err := FS{Root: root}.Statfs("/var/lib/kubelet")
	if err != nil {
		t.Fatal(err)
	}
	if got.CapacityBytes <= 0 || got.FreeBytes > got.CapacityBytes || got.AvailableBytes > got.FreeBytes || got.AvailableBytes < 0 || got.InodesFree > got.Inodes {
		t.Errorf("read %+v, want figures of a filesystem", got)
	}
	if _, err := (FS{Root: root}).Statfs("/var/lib/containerd"); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), filepath.Join(root, "var/lib/containerd")) {
		t.Errorf("error is %v, want gone with the path", err)
	}
}

func TestProductEndsAtTheLargestInt64(t *testing.T) {
	for _, c := range []struct {
		a, b uint64
		want int64
	}{
		{4096, 10, 40960},
		{1, math.MaxInt64, math.MaxInt64},
		{1, math.MaxInt64 + 1, math.MaxInt64},
		{4096, math.MaxUint64, math.MaxInt64},
		{math.MaxUint64, math.MaxUint64, math.MaxInt64},
		{4096, 0, 0},
	} {
		if got := product(c.a, c.b); got != c.want {
			t.Errorf("%d * %d = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
