package nodefs

import (
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

func TestTheLeastOwnMemoryLimitCounts(t *testing.T) {
	f := FS{Root: t.TempDir()}
	for name, text := range map[string]string{
		"a/b/memory.max": "max\n", "a/memory.max": "200\n", "memory.max": "30\n",
		"memory/c/memory.limit_in_bytes": "9223372036854771712\n", "memory/d/memory.limit_in_bytes": "100\n",
		"hidden/memory.max": "no number\n",
	} {
		testos.Put(t, f.Root+"/sys/fs/cgroup/"+name, text, 0o644)
	}
	for membership, want := range map[string]int64{
		"0::/a/b\n":                            200,
		"0::/\n":                               0,
		"0::/hidden\n":                         0,
		"1:memory:/c\n":                        0,
		"2:cpu:/x\n1:cpu,memory:/d\n0::/a/b\n": 100,
		"":                                     0,
	} {
		if got := memoryLimit(f, membership); got != want {
			t.Errorf("%q: %d, want %d", membership, got, want)
		}
	}
}
