package figures

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
)

const (
	mib       = 1 << 20
	machine   = 8192 * mib
	memAvail  = 3000 * mib
	allTasks  = 900
	podsCount = 3
)

// fakeNode is a node in files, with pods in a tenant's cgroup.
type fakeNode struct {
	*testing.T
	root  string
	files map[string]string // by path below root

	container bool // "/" has limits
	capped    bool // the kernel reports MemAvailable

	machine           *nodefs.Gauge[nodefs.Machine]
	node, allocatable *nodefs.MemoryGauge
	tasks             *nodefs.PIDGauge
	podMemory         *nodefs.PodCgroups[nodefs.MemoryUse]
	podTasks          *nodefs.PodCgroups[int64]
}

func newFakeNode(t *testing.T, version nodefs.Version, container, capped, podsLimited bool) *fakeNode {
	t.Helper()
	n := &fakeNode{T: t, root: t.TempDir(), container: container, capped: capped, files: map[string]string{
		"proc/meminfo":                 fmt.Sprintf("MemTotal: %d kB\nMemFree: 1000 kB\nHugetlb: 262144 kB\n", machine>>10),
		"proc/loadavg":                 fmt.Sprintf("0 0 0 3/%d 4711\n", allTasks),
		"proc/sys/kernel/pid_max":      "32768\n",
		"proc/sys/kernel/threads-max":  "60000\n",
		"sys/fs/cgroup/pids/tasks":     "",
		"sys/fs/cgroup/memory/x/empty": "",
	}}
	if capped {
		n.files["proc/sys/kernel/pid_max"], n.files["proc/sys/kernel/threads-max"] = "60000\n", "32768\n"
		n.files["proc/meminfo"] += fmt.Sprintf("MemAvailable: %d kB\n", memAvail>>10)
	}
	if version == nodefs.V2 {
		n.files = maps.Collect(func(yield func(string, string) bool) {
			for name, text := range n.files {
				if strings.HasPrefix(name, "proc/") && !yield(name, text) {
					return
				}
			}
			yield("sys/fs/cgroup/cgroup.controllers", "memory pids\n")
		})
	}
	add := func(cgroup, limit, tasks string, use, running int) {
		memory, pids := filepath.Join("sys/fs/cgroup", cgroup), filepath.Join("sys/fs/cgroup", cgroup)
		names := []string{"memory.max", "memory.current"}
		stat := fmt.Sprintf("anon %d\nfile %d\ninactive_file %d\nslab 5\n", (use-50)*mib, 50*mib, 20*mib)
		if version == nodefs.V1 {
			memory, pids = filepath.Join("sys/fs/cgroup/memory", cgroup), filepath.Join("sys/fs/cgroup/pids", cgroup)
			names = []string{"memory.limit_in_bytes", "memory.usage_in_bytes"}
			limit = strings.Replace(limit, "max", "9223372036854771712", 1)
			stat = fmt.Sprintf("cache 7\ninactive_file 3\ntotal_inactive_file %d\n", 20*mib)
		}
		n.files[filepath.Join(memory, "memory.stat")] = stat
		root := cgroup == "/" && !container // a real root: version 2 has no files, version 1 no limit
		if !root || version == nodefs.V1 {
			n.files[filepath.Join(memory, names[0])] = limit + "\n"
			n.files[filepath.Join(memory, names[1])] = fmt.Sprintln(use * mib)
		}
		if !root {
			n.files[filepath.Join(pids, "pids.max")] = tasks + "\n"
			n.files[filepath.Join(pids, "pids.current")] = fmt.Sprintln(running)
		}
	}
	if container {
		add("/", fmt.Sprint(7000*mib), "2000", 5000, 850)
	} else {
		add("/", "max", "max", 5000, 850)
	}
	if podsLimited {
		add("/tenant", fmt.Sprint(5000*mib), "1000", 4000, 700)
		add("/tenant/kubepods", fmt.Sprint(3500*mib), "600", 3000, 500)
	} else {
		add("/tenant", fmt.Sprint(5000*mib), "max", 4000, 700)
		add("/tenant/kubepods", "max", "max", 3000, 500)
	}
	for i := range podsCount {
		add(fmt.Sprintf("/tenant/kubepods/burstable/pod%d", i), fmt.Sprint(1000*mib), "max", 100*(i+1), 10*(i+1))
	}
	for name, text := range n.files {
		testos.Put(t, filepath.Join(n.root, name), text, 0o644)
	}
	n.open()
	return n
}

func (n *fakeNode) open() {
	fs := nodefs.FS{Root: n.root}
	memory, memoryErr := fs.MemoryHierarchy()
	pids, pidsErr := fs.PIDsHierarchy()
	naming, namingErr := fs.Naming("/tenant", nodefs.Cgroupfs)
	if err := cmp.Or(memoryErr, pidsErr, namingErr); err != nil {
		n.Fatal(err)
	}
	rules := nodefs.MemoryRules{MemAvailable: true, ExcludeHugePages: true}
	n.machine, n.node, n.allocatable = fs.MachineMemory(rules), memory.NodeMemory(rules), memory.AllPodsMemory(naming)
	n.tasks, n.podMemory, n.podTasks = fs.PIDs(naming), memory.PodMemory(naming), pids.PodTasks(naming)
}

// seen is all that is read of a node.
type seen struct {
	node map[eviction.Signal]eviction.Observation
	pods map[string]eviction.Measurement // by resource and pod
}

func (n *fakeNode) look() seen {
	b := new(nodefs.Buffer)
	s := seen{map[eviction.Signal]eviction.Observation{}, map[string]eviction.Measurement{}}
	node, err := n.node.Read(b)
	s.node[eviction.MemoryAvailable] = Memory(eviction.Observation{Signal: eviction.MemoryAvailable}, node, err)
	pods, err := n.allocatable.Read(b)
	s.node[eviction.AllocatableMemoryAvailable] = Memory(eviction.Observation{Signal: eviction.AllocatableMemoryAvailable}, pods, err)
	tasks, err := n.tasks.Read(b)
	s.node[eviction.PIDAvailable] = PIDs(eviction.Observation{Signal: eviction.PIDAvailable}, tasks, err)
	machine, _ := n.machine.Read(b)
	for i := range podsCount {
		pod := &eviction.Pod{UID: strconv.Itoa(i), QoSClass: eviction.Burstable, Running: true}
		for name, m := range map[string]eviction.Measurement{"memory": PodMemory(n.podMemory, pod, machine.Whole(), b), "pids": PodTasks(n.podTasks, pod, tasks.Whole(), b)} {
			m.Time = time.Time{}
			s.pods[name+" "+pod.UID] = m
		}
	}
	return s
}

// A lie is a figure that was replaced by one that cannot be.
type lie struct{ file, key, text string }

var number = regexp.MustCompile(`\b[0-9]+\b`)

// lie replaces one figure of one file.
func (n *fakeNode) lie(dice *rand.Rand) lie {
	for {
		name := slices.Sorted(maps.Keys(n.files))[dice.IntN(len(n.files))]
		text := n.files[name]
		at := number.FindAllStringIndex(text, -1)
		if len(at) == 0 {
			continue
		}
		of := at[dice.IntN(len(at))]
		key := strings.TrimSpace(text[strings.LastIndexByte(text[:of[0]], '\n')+1 : of[0]])
		lies := []string{"-1", "-" + text[of[0]:of[1]], "18446744073709551616", "99999999999999999999999", "x" + text[of[0]:of[1]], ""}
		base := filepath.Base(name)
		// A limit may be any number; MemTotal is what others are a part of.
		if !slices.Contains([]string{"memory.max", "memory.limit_in_bytes", "pids.max"}, base) && key != "MemTotal:" {
			above := int64(machine)
			if !strings.HasPrefix(base, "memory") && base != "meminfo" {
				above = 1 << 30 // more than any kernel's tasks and threads
			}
			lies = append(lies, fmt.Sprint(above+1+dice.Int64N(above)), fmt.Sprint(above<<dice.IntN(20)+1), "9223372036854775807", "9223372036854775808", "18446744073709551615")
		}
		l := lie{name, key, lies[dice.IntN(len(lies))]}
		testos.WriteFile(n, filepath.Join(n.root, name), text[:of[0]]+l.text+text[of[1]:], 0o644)
		return l
	}
}

// pod returns the measurement that a lie is about, and whether the figure is read.
func (l lie) pod() (name string, read bool) {
	_, uid, found := strings.Cut(filepath.Dir(l.file), "/burstable/pod")
	if !found {
		return "", false
	}
	v1 := strings.HasPrefix(l.file, "sys/fs/cgroup/memory/")
	switch filepath.Base(l.file) {
	case "pids.current":
		return "pids " + uid, true
	case "memory.current", "memory.usage_in_bytes":
		return "memory " + uid, true
	case "memory.stat":
		return "memory " + uid, l.key == map[bool]string{true: "total_inactive_file", false: "inactive_file"}[v1]
	}
	return "", false
}

// check compares what is read with a lie to what was read without one.
func (n *fakeNode) check(was, got seen, l lie) (wrong []string) {
	of, read := l.pod()
	for name, m := range got.pods {
		before := was.pods[name]
		switch unknown := m.State == eviction.MeasurementUnknown && m.Err != "" && !m.WorkingSetBytes.OK && !m.Processes.OK; {
		case read && name == of && !unknown:
			wrong = append(wrong, fmt.Sprintf("%s: %+v, want unknown", name, m))
		case (name != of || !read) && (m.State != before.State || m.WorkingSetBytes != before.WorkingSetBytes || m.Processes != before.Processes):
			wrong = append(wrong, fmt.Sprintf("%s: %+v, want %+v", name, m, before))
		}
	}
	for signal, o := range got.node {
		before := was.node[signal]
		low, high := before.Available, before.Available
		if signal == eviction.MemoryAvailable {
			switch {
			case l.key == "MemAvailable:": // the cap is lost, as in a kubelet
				high = machine
			case n.capped && !n.container: // the figure of the root's cgroup is lost
				low, high = min(low, memAvail), max(high, memAvail)
			}
		}
		switch {
		case o.State == eviction.Unknown && o.Err != "":
		case o.State == before.State && low <= o.Available && o.Available <= high && o.Capacity == before.Capacity:
		default:
			wrong = append(wrong, fmt.Sprintf("%s: %+v, want unknown or %d to %d of %d", signal, o, low, high, before.Capacity))
		}
	}
	return wrong
}

// One figure that cannot be made a pod the first victim, or a full node one with plenty.
func TestOneFigureThatCannotBeChangesNoOther(t *testing.T) {
	rounds, seed := 2000, uint64(time.Now().UnixNano())
	if n, err := strconv.Atoi(os.Getenv("EVICTD_ROUNDS")); err == nil {
		rounds = n
	}
	if n, err := strconv.ParseUint(os.Getenv("EVICTD_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("%d rounds, EVICTD_SEED=%d", rounds, seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	var nodes []*fakeNode
	var were []seen
	for i := range 16 {
		n := newFakeNode(t, nodefs.Version(1+i&1), i&2 != 0, i&4 != 0, i&8 != 0)
		nodes, were = append(nodes, n), append(were, n.look())
		for signal, o := range were[i].node {
			if o.State != eviction.Observed || o.Available <= 0 {
				t.Fatalf("node %d: %s: %+v, want a figure", i, signal, o)
			}
		}
	}
	for range rounds {
		i := dice.IntN(len(nodes))
		n := nodes[i]
		l := n.lie(dice)
		if wrong := n.check(were[i], n.look(), l); len(wrong) > 0 {
			t.Fatalf("seed %d, node %d, %+v:\n%s", seed, i, l, strings.Join(wrong, "\n"))
		}
		testos.WriteFile(t, filepath.Join(n.root, l.file), n.files[l.file], 0o644)
	}
	for i, n := range nodes {
		if wrong := n.check(were[i], n.look(), lie{}); len(wrong) > 0 {
			t.Errorf("node %d without a lie: %q", i, wrong)
		}
	}
}
