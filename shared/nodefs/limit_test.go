package nodefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// A limitedNode is a made-up node of one cgroup version with 32 GiB and 20 GiB available.
type limitedNode struct {
	t       *testing.T
	root    string
	version Version
}

// onBothVersions runs a test on a node of each cgroup version, whose "/" uses 8 GiB.
func onBothVersions(t *testing.T, name string, test func(*testing.T, limitedNode)) {
	for _, version := range []Version{V1, V2} {
		t.Run(fmt.Sprintf("%s v%d", name, version), func(t *testing.T) {
			n := limitedNode{t, t.TempDir(), version}
			write(t, n.root, "proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable: 20971520 kB\n")
			write(t, n.root, "proc/loadavg", "0 0 0 1/1000 9\n")
			write(t, n.root, "proc/sys/kernel/pid_max", "250400\n")
			if version == V1 {
				write(t, n.root, "sys/fs/cgroup/pids/tasks", "")
			} else {
				write(t, n.root, "sys/fs/cgroup/cgroup.controllers", "memory pids\n")
			}
			n.memory("/", "", 8*gib)
			test(t, n)
		})
	}
}

func (n limitedNode) dir(controller, cgroup string) string {
	if n.version == V1 {
		cgroup = filepath.Join(controller, cgroup)
	}
	return filepath.Join(n.root, "sys/fs/cgroup", cgroup)
}

// memory sets a cgroup's limit, "" for none, and its use, of which 1 MiB is cache.
func (n limitedNode) memory(cgroup, limit string, working int64) {
	dir, names := n.dir("memory", cgroup), []string{"memory.limit_in_bytes", "memory.usage_in_bytes"}
	stat := fmt.Sprintf("total_inactive_file %d\n", mib)
	if n.version == V2 {
		names = []string{"memory.max", "memory.current"}
		stat = fmt.Sprintf("inactive_file %d\nanon %d\nfile %d\n", mib, working, mib)
	}
	if limit != "" {
		n.limit(cgroup, limit)
	}
	if limit != "" || cgroup != "/" || n.version == V1 {
		write(n.t, dir, names[1], fmt.Sprintln(working+mib))
	}
	write(n.t, dir, "memory.stat", stat)
}

// limit sets a memory limit as the kernel writes it.
func (n limitedNode) limit(cgroup, limit string) {
	name := "memory.max"
	if n.version == V1 {
		name = "memory.limit_in_bytes"
		limit = strings.Replace(limit, "max", "9223372036854771712", 1)
	}
	write(n.t, n.dir("memory", cgroup), name, limit+"\n")
}

func (n limitedNode) tasks(cgroup, limit string, running int) {
	write(n.t, n.dir("pids", cgroup), "pids.max", limit+"\n")
	write(n.t, n.dir("pids", cgroup), "pids.current", fmt.Sprintln(running))
}

func (n limitedNode) pods(root string) *MemoryGauge {
	return hierarchy(n.t, FS{Root: n.root}).AllPodsMemory(n.naming(root))
}

func (n limitedNode) naming(root string) *Naming {
	names, err := FS{Root: n.root}.Naming(root, Cgroupfs)
	if err != nil {
		n.t.Fatal(err)
	}
	return names
}

func number(n int64) string { return fmt.Sprint(n) }

// Pods below a tenant's cgroup were killed by the kernel while nothing was known of a limit.
func TestPodsBelowACgroupWithALimitHaveWhatIsLeftOfIt(t *testing.T) {
	type limited struct {
		limit string
		use   int64
	}
	none := limited{"max", 3000 * mib}
	for name, c := range map[string]struct {
		root, tenant, kubepods limited
		want, capacity         int64 // -1 for no limit
		of                     string
	}{
		"no limit at all":             {limited{}, none, none, -1, 0, ""},
		"a limit of the tenant":       {limited{}, limited{number(4 * gib), 3900 * mib}, none, 196 * mib, 4 * gib, "/a/tenant"},
		"a closer one of the pods":    {limited{}, limited{number(4 * gib), 3900 * mib}, limited{number(3100 * mib), 3000 * mib}, 100 * mib, 3100 * mib, ""},
		"equally close":               {limited{}, limited{number(4 * gib), 3996 * mib}, limited{number(3100 * mib), 3000 * mib}, 100 * mib, 3100 * mib, ""},
		"a smaller one with more":     {limited{}, limited{number(20 * gib), 19 * gib}, limited{number(5 * gib), 3 * gib}, gib, 20 * gib, "/a/tenant"},
		"one of the container":        {limited{number(9 * gib), 8900 * mib}, limited{number(4 * gib), 3 * gib}, none, 316 * mib, 9 * gib, "/"},
		"the tenant uses more":        {limited{}, limited{number(4 * gib), 5 * gib}, limited{number(5 * gib), 3 * gib}, 0, 4 * gib, "/a/tenant"},
		"as much as the machine has":  {limited{number(32 * gib), 8 * gib}, limited{number(64 * gib), 3900 * mib}, none, -1, 0, ""},
		"the root is without a limit": {limited{"max", 8 * gib}, limited{number(4 * gib), 3900 * mib}, none, 196 * mib, 4 * gib, "/a/tenant"},
	} {
		onBothVersions(t, name, func(t *testing.T, n limitedNode) {
			if c.root.limit != "" {
				n.memory("/", c.root.limit, c.root.use)
			}
			n.memory("/a/tenant", c.tenant.limit, c.tenant.use) // and /a has no files
			n.memory("/a/tenant/kubepods", c.kubepods.limit, c.kubepods.use)
			got := read(t, n.pods("/a/tenant"))
			if got.Limited != (c.want >= 0) || got.Limited && (got.AvailableBytes != c.want || got.CapacityBytes != c.capacity) || got.LimitOf != c.of {
				t.Errorf("read %+v, want %d of %d, a limit of %q", got, c.want, c.capacity, c.of)
			}
		})
	}
}

// A kubelet's node in a container of 9 GiB seemed to have the 32 GiB of the machine.
func TestANodeInAContainerHasTheMemoryOfTheContainer(t *testing.T) {
	for name, c := range map[string]struct {
		limit          string
		use            int64
		want, capacity int64
		of             string
	}{
		"no limit":                       {"max", 8 * gib, 20 * gib, 32 * gib, ""},
		"less than the machine":          {number(9 * gib), 8 * gib, gib, 9 * gib, "/"},
		"less, with more than there is":  {number(31 * gib), 8 * gib, 20 * gib, 31 * gib, "/"},
		"more than the machine":          {number(64 * gib), 8 * gib, 20 * gib, 32 * gib, ""},
		"as much":                        {number(32 * gib), 30 * gib, 2 * gib, 32 * gib, ""},
		"lowered below what it uses":     {number(7 * gib), 8 * gib, 0, 7 * gib, "/"},
		"without any of it left by then": {"0", 8 * gib, 0, 0, "/"},
	} {
		onBothVersions(t, name, func(t *testing.T, n limitedNode) {
			n.memory("/", c.limit, c.use)
			got := read(t, hierarchy(t, FS{Root: n.root}).NodeMemory(MemoryRules{MemAvailable: true}))
			if got.AvailableBytes != c.want || got.CapacityBytes != c.capacity || got.LimitOf != c.of {
				t.Errorf("read %+v, want %d of %d, a limit of %q", got, c.want, c.capacity, c.of)
			}
		})
	}
}

// No pod could fork, while 249,400 tasks seemed to be left.
func TestPodsBelowALimitOnTasksHaveWhatIsLeftOfIt(t *testing.T) {
	const machine = 250400 - 1000
	for name, c := range map[string]struct {
		set  func(limitedNode)
		root string
		want int64
		of   string
	}{
		"of the container":                 {func(n limitedNode) { n.tasks("/", "2048", 2040); n.tasks("/kubepods", "max", 30) }, "/", 8, "/"},
		"of the container, before any pod": {func(n limitedNode) { n.tasks("/", "2048", 2040) }, "/", 8, "/"},
		"of a tenant":                      {func(n limitedNode) { n.tasks("/t", "100", 90); n.tasks("/t/kubepods", "max", 30) }, "/t", 10, "/t"},
		"of pods and of a tenant":          {func(n limitedNode) { n.tasks("/t", "100", 90); n.tasks("/t/kubepods", "35", 30) }, "/t", 5, ""},
		"far away":                         {func(n limitedNode) { n.tasks("/t", "999999", 90); n.tasks("/t/kubepods", "max", 30) }, "/t", machine, "/t"},
		"none":                             {func(n limitedNode) { n.tasks("/t", "max", 90); n.tasks("/t/kubepods", "max", 30) }, "/t", machine, ""},
		"lowered below what runs":          {func(n limitedNode) { n.tasks("/t", "80", 90); n.tasks("/t/kubepods", "max", 30) }, "/t", -10, "/t"},
	} {
		onBothVersions(t, name, func(t *testing.T, n limitedNode) {
			c.set(n)
			got, err := FS{Root: n.root}.ReadPIDs(n.naming(c.root))
			if err != nil || got.Available() != c.want || got.LimitOf != c.of {
				t.Errorf("read %+v, %v, want %d available, a limit of %q", got, err, c.want, c.of)
			}
		})
	}
}

func TestLimitsAboveAGaugeThatAreSetLaterCount(t *testing.T) {
	onBothVersions(t, "", func(t *testing.T, n limitedNode) {
		n.memory("/", "max", 8*gib)
		n.memory("/t", "max", 3*gib)
		n.memory("/t/kubepods", "max", 2*gib)
		n.tasks("/t", "max", 90)
		n.tasks("/t/kubepods", "max", 30)
		node, pods, tasks := hierarchy(t, FS{Root: n.root}).NodeMemory(MemoryRules{}), n.pods("/t"), FS{Root: n.root}.PIDs(n.naming("/t"))
		var b Buffer
		sees := func(what string, wantNode, wantPods, wantTasks int64) {
			t.Helper()
			p, err := tasks.Read(&b)
			if got := [...]int64{read(t, node).AvailableBytes, read(t, pods).AvailableBytes, p.Available()}; got != [...]int64{wantNode, wantPods, wantTasks} || err != nil {
				t.Errorf("%s: %d available, %v, want %d, %d and %d", what, got, err, wantNode, wantPods, wantTasks)
			}
		}
		sees("no limits", 24*gib, 0, 249400)
		n.limit("/", number(9*gib))
		n.limit("/t", number(4*gib))
		write(t, n.dir("pids", "/t"), "pids.max", "100\n")
		sees("limits", gib, gib, 10)
		if allocs := testing.AllocsPerRun(20, func() {
			_, nodeErr := node.Read(&b)
			_, podsErr := pods.Read(&b)
			_, tasksErr := tasks.Read(&b)
			if err := errors.Join(nodeErr, podsErr, tasksErr); err != nil {
				t.Error(err)
			}
		}); allocs != 0 {
			t.Errorf("%v allocations a read, want none", allocs)
		}
		n.limit("/", "max")
		n.limit("/t", "max")
		write(t, n.dir("pids", "/t"), "pids.max", "max\n")
		sees("no limits again", 24*gib, 0, 249400)
		for _, controller := range []string{"memory", "pids"} {
			if err := os.RemoveAll(n.dir(controller, "/t")); err != nil {
				t.Fatal(err)
			}
		}
		pods.Close() // a regular file never says ENODEV
		tasks.Close()
		if _, err := pods.Read(&b); !errors.Is(err, ErrGone) {
			t.Errorf("error = %v, want gone", err)
		}
		n.memory("/t", number(2*gib), gib)
		n.memory("/t/kubepods", "max", gib)
		sees("made again", 24*gib, gib, 249400)
	})
}

// A limit that cannot be read may be the one that is reached.
func TestAnUnreadableLimitAboveIsAnError(t *testing.T) {
	onBothVersions(t, "", func(t *testing.T, n limitedNode) {
		n.memory("/t", "much", gib)
		n.memory("/t/kubepods", number(2*gib), gib)
		n.tasks("/t", "many", 1)
		n.tasks("/t/kubepods", "100", 1)
		_, memory := n.pods("/t").Read(&Buffer{})
		_, tasks := FS{Root: n.root}.ReadPIDs(n.naming("/t"))
		for err, file := range map[error]string{memory: n.dir("memory", "/t/memory."), tasks: n.dir("pids", "/t/pids.max")} {
			if err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("error = %v, want one with %s", err, file)
			}
		}
	})
}
