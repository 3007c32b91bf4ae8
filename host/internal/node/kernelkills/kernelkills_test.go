package kernelkills

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
)

// A tree is one of cgroups of pods in the kernel.
type tree struct {
	root  string // below that of the hierarchy
	dir   string
	watch *Watch
}

const pods = 20

// newTree makes the cgroups of pods, of two containers each. The limit of all pods is 64Mi, that of every third pod 40Mi, and that
// of the first container of the next one 20Mi.
func newTree(t *testing.T) *tree {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("makes cgroups: run make test as root")
	}
	h, err := nodefs.FS{}.MemoryHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	if h.Version != nodefs.V1 {
		t.Skip("test/suites/guest has a node with version 2")
	}
	w := &tree{root: fmt.Sprintf("/evictd-kills-%d", os.Getpid())}
	w.dir = h.Path(w.root)
	limit := func(of string, mib int) {
		testos.Put(t, filepath.Join(w.dir, of, "memory.limit_in_bytes"), strconv.Itoa(mib<<20), 0)
	}
	for i := range pods {
		for _, c := range []string{"one", "two"} {
			at := filepath.Join(w.dir, w.pod(i), c)
			testos.MkdirAll(t, at, 0o755)
			t.Cleanup(func() { _ = os.Remove(at) })
		}
		switch i % 3 {
		case 1:
			limit(w.pod(i), 40)
		case 2:
			limit(filepath.Join(w.pod(i), "one"), 20)
		}
	}
	limit("kubepods", 64)
	t.Cleanup(func() { // after the containers'
		if out, err := exec.Command("find", w.dir, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").CombinedOutput(); err != nil {
			t.Errorf("cgroups are left: %v: %s", err, out)
		}
	})
	w.watch = New(nodefs.FS{}, w.root)
	if _, err := w.watch.Look(true); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *tree) pod(i int) string {
	return filepath.Join("kubepods", []string{"", "burstable", "besteffort"}[i%2*(1+i%4/2)], fmt.Sprintf("pod%d", i))
}

// kill has a child of a shell in a container take more memory than any limit allows. The shell stays.
func (w *tree) kill(t *testing.T, pod int, container string) {
	t.Helper()
	script := fmt.Sprintf("echo $$ >%s/cgroup.procs && head -c 100m /dev/zero | tail >/dev/null; true", filepath.Join(w.dir, w.pod(pod), container))
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// look returns the kills in the tree: the kernel may kill for tests of other packages, too.
func (w *tree) look(t *testing.T) []Kill {
	t.Helper()
	kills, err := w.watch.Look(true)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(kills, func(k Kill) bool { return k.PodUID == "" })
}

// wantKill wants that the kill is found, and no other.
func (w *tree) wantKill(t *testing.T, want Kill) {
	t.Helper()
	if !w.watch.Moved() {
		t.Fatal("the kernel has not killed")
	}
	kills := w.look(t)
	for _, k := range kills {
		if k.Processes = want.Processes; k != want { // the shell may go, too
			t.Errorf("found %+v, want %+v", k, want)
		}
	}
	if len(kills) != 1 {
		t.Errorf("%d kills found, want %+v", len(kills), want)
	}
}

// Kills at the limits of containers, pods and all pods have the right pod, container and scope.
func TestKillsAreOfTheirContainerAndLimit(t *testing.T) {
	w := newTree(t)
	scopes := map[string]int{}
	kills := 6 // of each limit, in both containers
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		kills = 100
	}
	for n := range kills {
		i, container := 7*n%pods, []string{"one", "two"}[n/3%2]
		want := Kill{PodUID: strconv.Itoa(i), ContainerID: container, Scope: decision.ScopeKubepods, LimitBytes: 64 << 20}
		switch {
		case i%3 == 1:
			want.Scope, want.LimitBytes = decision.ScopePod, 40<<20
		case i%3 == 2 && container == "one":
			want.Scope, want.LimitBytes = decision.ScopeContainer, 20<<20
		}
		w.kill(t, i, container)
		w.wantKill(t, want)
		scopes[want.Scope]++
	}
	t.Log(maps.Clone(scopes))
	began := time.Now()
	for range 1000 {
		if w.watch.Moved() && len(w.look(t)) > 0 {
			t.Fatal("a kill is found that was none")
		}
	}
	t.Logf("%v for each look without a kill", time.Since(began)/1000)
}

// A kernel counts as version 2 does: an OOM at the limit, and a kill in the cgroup of the process, each in all cgroups around it.
type kernel struct {
	random *rand.Rand
	all    map[string]*nodefs.OOMCgroup
	made   int
	total  int64
	truth  []Kill
	// gone names pods of which a container has ended since the last look: what two of them count is not got apart.
	gone map[string]bool
}

func (k *kernel) make(c nodefs.OOMCgroup) {
	c.LimitBytes = 1 << 30
	k.all[c.Cgroup] = &c
}

func (k *kernel) container(pod string) {
	k.made++
	id := fmt.Sprint("c", k.made)
	k.make(nodefs.OOMCgroup{Cgroup: pod + "/" + id, Parent: pod, PodUID: filepath.Base(pod), ContainerID: id})
}

func newKernel(seed uint64) *kernel {
	k := &kernel{random: rand.New(rand.NewPCG(seed, 9)), all: map[string]*nodefs.OOMCgroup{}}
	k.make(nodefs.OOMCgroup{Cgroup: "/kubepods"})
	k.make(nodefs.OOMCgroup{Cgroup: "/kubepods/burstable", Parent: "/kubepods", Class: true})
	for i := range 3 {
		parent := []string{"/kubepods", "/kubepods/burstable"}[i%2]
		pod := parent + fmt.Sprint("/p", i)
		k.make(nodefs.OOMCgroup{Cgroup: pod, Parent: parent, PodUID: fmt.Sprint("p", i)})
		k.container(pod)
		k.container(pod)
	}
	return k
}

// kill kills in a random container at the limit of it, of a cgroup around it, or of the node.
func (k *kernel) kill() {
	var containers []string
	for _, at := range slices.Sorted(maps.Keys(k.all)) {
		if k.all[at].ContainerID != "" {
			containers = append(containers, at)
		}
	}
	in := containers[k.random.IntN(len(containers))]
	around := []string{""}
	for at := in; at != ""; at = k.all[at].Parent {
		around = append(around, at)
	}
	at, c := around[k.random.IntN(len(around))], k.all[in]
	want := Kill{PodUID: c.PodUID, ContainerID: c.ContainerID, Scope: decision.ScopeNode, Processes: 1}
	if at != "" {
		want.Scope, want.LimitBytes = scopeOf(&moved{OOMCgroup: *k.all[at]}), 1<<30
		k.all[at].OOMs++
	}
	for ; at != ""; at = k.all[at].Parent {
		k.all[at].OOMsBelow++
	}
	if c.ContainerID[len(c.ContainerID)-1]%3 == 0 { // memory.oom.group
		want.Processes = 3
	}
	for up := in; up != ""; up = k.all[up].Parent {
		k.all[up].Kills, k.all[up].Groups = k.all[up].Kills+want.Processes, k.all[up].Groups+want.Processes/3
	}
	k.total += want.Processes
	k.truth = append(k.truth, want)
	if !k.gone[c.PodUID] && k.random.IntN(3) == 0 { // its main process was one of them
		k.gone[c.PodUID] = true
		delete(k.all, in)
		k.container(c.Parent)
	}
}

func (k *kernel) now() (all []nodefs.OOMCgroup) {
	for _, c := range k.all {
		all = append(all, *c)
	}
	return all
}

// What is found of kills is true, or said to be unknown; of one kill between two looks it is known.
func TestNoKillIsFoundInTheWrongPlace(t *testing.T) {
	known := 0
	for seed := range uint64(3000) {
		k := newKernel(seed)
		former, total := map[string]nodefs.OOMCounts{}, int64(0)
		for range 20 {
			k.truth, k.gone = nil, map[string]bool{}
			for range k.random.IntN(4) {
				k.kill()
			}
			now := k.now()
			got, sum := found(now, former, k.total-total, nodefs.V2, true), int64(0)
			for _, kill := range got {
				sum += kill.Processes
				of, here := int64(0), k.all[k.path(kill)] != nil
				for _, was := range k.truth {
					if (was.PodUID == kill.PodUID || kill.PodUID == "") && (was.Scope == kill.Scope || kill.Scope == decision.ScopeUnknown) &&
						(was.ContainerID == kill.ContainerID || kill.ContainerID == "") {
						of += was.Processes
					}
				}
				if of < kill.Processes {
					t.Fatalf("seed %d: %+v is found of %+v", seed, kill, k.truth)
				}
				if kill.ContainerID != "" && !here {
					t.Fatalf("seed %d: %+v is of no cgroup", seed, kill)
				}
			}
			if sum != k.total-total {
				t.Fatalf("seed %d: %d processes are found of %d", seed, sum, k.total-total)
			}
			if len(k.truth) == 1 {
				want := k.truth[0]
				if k.all[k.path(want)] == nil {
					want.ContainerID = ""
					if want.Scope == decision.ScopeContainer {
						want.LimitBytes = 0
					}
				}
				if known++; len(got) != 1 || got[0] != want {
					t.Fatalf("seed %d: %+v is found of the one kill %+v", seed, got, want)
				}
			}
			former, total = map[string]nodefs.OOMCounts{}, k.total
			for _, c := range now {
				former[c.Cgroup] = c.OOMCounts
			}
		}
	}
	t.Logf("%d kills were alone between two looks", known)
}

// path returns the cgroup of a kill, of which only the pod's parent is not in it.
func (k *kernel) path(kill Kill) string {
	for at, c := range k.all {
		if c.PodUID == kill.PodUID && c.ContainerID == kill.ContainerID && kill.ContainerID != "" {
			return at
		}
	}
	return ""
}
