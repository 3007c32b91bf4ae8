package fallback

import (
	"path/filepath"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

func TestLargestHolder(t *testing.T) {
	facts := madeUp(t)
	process := func(pid, name, rss, cgroup string) {
		testos.Put(t, filepath.Join(facts.RootDir, "proc", pid, "status"), "Name:\t"+name+"\nVmRSS:\t"+rss+"\n", 0o644)
		testos.Put(t, filepath.Join(facts.RootDir, "proc", pid, "cgroup"), "4:memory:"+cgroup+"\n0::/\n", 0o644)
	}
	r := New(facts)
	if got := r.LargestHolder(eviction.MemoryAvailable); got != "" {
		t.Errorf("with nothing known %q, want nothing", got)
	}
	process("1", "init", "9000 kB", "/init.scope")
	process("20", "hog", "4194304 kB", "/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope")
	process("30", "d\x1bb", "2097152 kB", "/system.slice/db.service")
	process("40", "liar", "-1 kB", "/")
	testos.Put(t, filepath.Join(facts.RootDir, "proc/50/status"), "", 0o644)
	if got, want := r.LargestHolder(eviction.AllocatableMemoryAvailable), `process 30 "d\x1bb" with 2048Mi`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	testos.Put(t, filepath.Join(facts.RootDir, "proc/meminfo"), "MemTotal: 8388608 kB\nSUnreclaim: 100 kB\nHugetlb: 3145728 kB\n", 0o644)
	if got, want := r.LargestHolder(eviction.MemoryAvailable), "the pool of huge pages with 3072Mi"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := r.LargestHolder(eviction.NodeFsAvailable); got != "" {
		t.Errorf("of a disk %q, want nothing", got)
	}
}
