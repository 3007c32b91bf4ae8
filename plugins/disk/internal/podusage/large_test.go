package podusage

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// A disk stands in for walks: directories of so many chunks, each of which takes
// its time.
type disk struct {
	mu     sync.Mutex
	chunks map[string]int64 // by base name of the directory; without an entry there is none
	takes  time.Duration
	hangs  map[string]chan struct{}
	opened map[string]int
	closed map[string]int
}

func (d *disk) open(dir string, o walk.Options) (walker, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := path.Base(dir)
	if _, ok := d.chunks[name]; !ok {
		return nil, fs.ErrNotExist
	}
	d.opened[name]++
	return &slow{disk: d, name: name}, nil
}

// waiting returns the number of walks that are not closed.
func (d *disk) waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for name := range d.opened {
		n += d.opened[name] - d.closed[name]
	}
	return n
}

// slow is a walk on a disk.
type slow struct {
	disk *disk
	name string
	at   int64
}

func (s *slow) Continue(ctx context.Context) (bool, error) {
	s.disk.mu.Lock()
	takes, hangs, chunks := s.disk.takes, s.disk.hangs[s.name], s.disk.chunks[s.name]
	s.disk.mu.Unlock()
	if hangs != nil {
		<-hangs // as in the kernel: no deadline helps
	}
	select {
	case <-time.After(takes):
		s.at++
	case <-ctx.Done():
	}
	return s.at >= chunks, nil
}

func (s *slow) Usage() walk.Usage { return walk.Usage{Bytes: s.at << 20, Inodes: s.at * chunkEntries} }

func (s *slow) Close() error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	s.disk.closed[s.name]++
	return nil
}

// newDisk has the node's directories on a disk that takes 10 ms for a chunk.
func (n *node) newDisk() *disk {
	d := &disk{chunks: map[string]int64{}, hangs: map[string]chan struct{}{}, opened: map[string]int{}, closed: map[string]int{}, takes: 10 * time.Millisecond}
	n.meter.trees.open = d.open
	return d
}

// within measures with a deadline, which must be kept.
func (n *node) within(limit time.Duration, pods ...eviction.Pod) map[string]eviction.Measurement {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	began := time.Now()
	got, err := n.measure(ctx, request(eviction.DetailContainers, eviction.NodeFsAvailable, pods...))
	if err != nil {
		n.t.Error(err)
	}
	if took := time.Since(began); took >= limit {
		n.t.Errorf("took %v, want less than %v", took, limit)
	}
	return got
}

func volumeOf(m eviction.Measurement) string {
	if m.State != eviction.Measured || len(m.Volumes) != 1 {
		return fmt.Sprintf("state %d %s", m.State, m.Err)
	}
	return fmt.Sprintf("%dMi %d", m.Volumes[0].UsedBytes.Value>>20, m.Volumes[0].InodesUsed.Value)
}

func wantVolume(t *testing.T, m eviction.Measurement, want string) {
	t.Helper()
	if got := volumeOf(m); got != want {
		t.Errorf("pod %s: volume %s, want %s", m.UID, got, want)
	}
}

func story(t *testing.T, tell func(t *testing.T, n *node, d *disk)) {
	t.Helper()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t, root: root, runtime: fakecri.New(), layout: eviction.LayoutShared}
		n.start(Walk{})
		tell(t, n, n.newDisk())
		time.Sleep(callTimeout) // until calls that hang have ended
	})
}

func TestALargeDirectoryDelaysNoCall(t *testing.T) {
	story(t, func(t *testing.T, n *node, d *disk) {
		large, small := n.add("large", []eviction.Volume{emptyDir("million")}), n.add("small", []eviction.Volume{emptyDir("v")})
		d.chunks["million"], d.chunks["v"], d.takes = 50, 3, 9*time.Millisecond
		// 80 ms of 100 are for walking.
		got := n.within(100*time.Millisecond, large, small)
		wantVolume(t, got["small"], "3Mi 60000")
		wantVolume(t, got["large"], "8Mi 160000")
		for i := range 4 {
			got = n.within(100*time.Millisecond, large, small)
			wantVolume(t, got["large"], fmt.Sprintf("%dMi %d", 8*(i+2), 8*(i+2)*chunkEntries))
		}
		if d.opened["million"] != 1 {
			t.Errorf("the walk began %d times, want once: each call goes on where the last one ended", d.opened["million"])
		}
		got = n.within(time.Second, large, small)
		wantVolume(t, got["large"], "50Mi 1000000")
		// The next walk counts from zero, and the last figure stands until then.
		got = n.within(100*time.Millisecond, large, small)
		wantVolume(t, got["large"], "50Mi 1000000")
		d.mu.Lock()
		d.chunks["million"] = 2 // it was cleaned up
		d.mu.Unlock()
		for range 3 {
			got = n.within(100*time.Millisecond, large, small)
		}
		wantVolume(t, got["large"], "2Mi 40000")
	})
}

func TestADirectoryThatHangsCostsItsOwnAnswer(t *testing.T) {
	story(t, func(t *testing.T, n *node, d *disk) {
		bad, good := n.add("bad", []eviction.Volume{emptyDir("hung")}), n.add("good", []eviction.Volume{emptyDir("v")})
		d.chunks["hung"], d.chunks["v"] = 1, 1
		d.hangs["hung"] = make(chan struct{})
		var wait sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		answered := make(chan string, 2)
		wait.Go(func() {
			_ = n.meter.Measure(ctx, request(eviction.DetailPod, eviction.NodeFsAvailable, bad, good), func(m eviction.Measurement) { answered <- m.UID })
		})
		synctest.Wait()
		if got := <-answered; got != "good" {
			t.Errorf("%s was answered first, want good", got)
		}
		// Who asks next waits for its turn in vain, and not for longer than it may.
		got := n.within(time.Second, bad, good)
		wantVolume(t, got["good"], "1Mi 20000")
		wantVolume(t, got["bad"], "state 0 volume hung: not looked at in time")
		close(d.hangs["hung"])
		d.mu.Lock()
		d.hangs["hung"] = nil
		d.mu.Unlock()
		wait.Wait()
		got = n.within(time.Second, bad, good)
		wantVolume(t, got["bad"], "1Mi 20000")
	})
}

func TestEntriesAreLimited(t *testing.T) {
	story(t, func(t *testing.T, n *node, _ *disk) {
		n.start(Walk{EntriesPerMeasure: 5 * chunkEntries, Parallel: 1})
		d := n.newDisk()
		a, b := n.add("pod-a", []eviction.Volume{emptyDir("a")}), n.add("pod-b", []eviction.Volume{emptyDir("b")})
		d.chunks["a"], d.chunks["b"] = 10, 10
		got := n.within(time.Hour, a, b)
		wantVolume(t, got["pod-a"], "3Mi 60000")
		wantVolume(t, got["pod-b"], "2Mi 40000")
	})
}

// A pod with many directories used up what may be looked at before the turn of others
// came, which were unknown then.
func TestAPodWithManyDirectoriesTakesItsShareAlone(t *testing.T) {
	story(t, func(t *testing.T, n *node, _ *disk) {
		n.start(Walk{EntriesPerMeasure: 10 * chunkEntries, Parallel: 2})
		d := n.newDisk()
		var many []eviction.Volume
		for i := range 20 {
			v := emptyDir(fmt.Sprint("v", i))
			many = append(many, v)
			d.chunks[v.Name] = 10
		}
		hog, other := n.add("hog", many), n.add("other", []eviction.Volume{emptyDir("small")})
		d.chunks["small"] = 3
		got := n.within(time.Hour, hog, other)
		wantVolume(t, got["other"], "3Mi 60000")
	})
}

// What was counted of an unfinished directory is less than it holds, so that a pod was evicted that
// held little. Everything that no pod explained counted as its use, so that an innocent pod was
// evicted.
func TestAnUnfinishedDirectoryIsALowerBoundAndHoldsAtMostWhatNoPodExplains(t *testing.T) {
	story(t, func(t *testing.T, n *node, d *disk) {
		large, small, plenty := n.add("large", []eviction.Volume{emptyDir("million")}), n.add("small", []eviction.Volume{emptyDir("s")}), n.add("plenty", []eviction.Volume{emptyDir("p")})
		d.chunks["million"], d.chunks["s"], d.chunks["p"], d.takes, n.used = 50, 3, 11, 9*time.Millisecond, 500<<20
		within := func(limit time.Duration) map[string]eviction.Measurement {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			got, err := n.measure(ctx, request(eviction.DetailPod, eviction.NodeFsAvailable, large, small, plenty))
			if err != nil || ctx.Err() != nil {
				t.Errorf("error %v, context %v", err, ctx.Err())
			}
			return got
		}
		got := within(150 * time.Millisecond)
		wantUsage(t, got["large"], 13)
		wantMost(t, got["large"], 500-3-11)
		wantUsage(t, got["small"], 3)
		wantMost(t, got["small"], 0)
		wantOrder(t, got, "large plenty small", small, plenty, large)
		// Reports and limits use what was found.
		wantUsage(t, n.within(20*time.Millisecond, large)["large"], 14)
		n.used = 20 << 20 // less than all together: figures are not of the same moment
		got = within(20 * time.Millisecond)
		wantUsage(t, got["large"], 15)
		wantMost(t, got["large"], 0)
		n.used = 500 << 20
		got = within(time.Second)
		wantUsage(t, got["large"], 50)
		// Later walks have a complete figure to go by.
		got = within(100 * time.Millisecond)
		wantUsage(t, got["large"], 50)
		wantMost(t, got["large"], 0)
	})
}

// A pod whose directory was not yet counted ranked as if it held the operating system and
// all images, before one that held much.
func TestAPodHoldsNothingThatWasThereBefore(t *testing.T) {
	const system = 300
	story(t, func(t *testing.T, n *node, d *disk) {
		d.takes = 9 * time.Millisecond
		var before []eviction.Pod
		for name, mibs := range map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1, "hog": 60} {
			before = append(before, n.add(name, []eviction.Volume{emptyDir("of-" + name)}, fakecri.Container{Name: "c"}))
			d.chunks["of-"+name] = mibs
		}
		measure := func(limit time.Duration, used int64, pods ...eviction.Pod) map[string]eviction.Measurement {
			t.Helper()
			n.used = used << 20
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			got, err := n.measure(ctx, request(eviction.DetailPod, eviction.NodeFsAvailable, pods...))
			if err != nil {
				t.Error(err)
			}
			return got
		}
		measure(time.Minute, system+64, before...) // all are known
		young := n.add("young", []eviction.Volume{emptyDir("million")}, fakecri.Container{Name: "c"})
		d.chunks["million"] = 1000
		measure(time.Second, system+64+40, before...) // not all are asked for
		all := append(slices.Clone(before), young)
		got := measure(150*time.Millisecond, system+64+40, all...)
		wantUsage(t, got["young"], 12)
		wantMost(t, got["young"], 40)
		wantOrder(t, got, "hog young", young, before[slices.IndexFunc(before, func(row eviction.Pod) bool { return row.UID == "hog" })])
		wantMost(t, measure(150*time.Millisecond, system+64+140, all...)["young"], 140) // what has grown may be its own
		n.meter.Removing()
		wantMost(t, measure(150*time.Millisecond, system-200+64+140, all...)["young"], 140) // images went, and not what it holds
		wantMost(t, measure(150*time.Millisecond, system-200+64+140, young)["young"], 140)  // the last figures of the others count
	})
}

func wantUsage(t *testing.T, m eviction.Measurement, mib int64) {
	t.Helper()
	if got := m.UsageFor(eviction.NodeFsAvailable); m.State != eviction.Measured || got != mib<<20 {
		t.Errorf("%s: state %d %s, uses %d MiB, want %d", m.UID, m.State, m.Err, got>>20, mib)
	}
}

// wantMost checks the most that a pod may hold, 0 if its use is known.
func wantMost(t *testing.T, m eviction.Measurement, mib int64) {
	t.Helper()
	for _, u := range m.Usage {
		if u.AtMost != mib<<20 {
			t.Errorf("%s: holds at most %d MiB, want %d", m.UID, u.AtMost>>20, mib)
		}
	}
}

func wantOrder(t *testing.T, got map[string]eviction.Measurement, want string, rows ...eviction.Pod) {
	t.Helper()
	var candidates []eviction.Candidate
	for _, row := range rows {
		candidates = append(candidates, eviction.Candidate{Pod: row, Measurement: got[row.UID]})
	}
	var order []string
	for _, r := range rank.Kubelet(candidates, eviction.NodeFsAvailable) {
		order = append(order, r.UID)
	}
	if all := strings.Join(order, " "); all != want {
		t.Errorf("they go in the order %s, want %s", all, want)
	}
}

func TestAPassAndViewIsWalkedForOnce(t *testing.T) {
	story(t, func(t *testing.T, n *node, d *disk) {
		row := n.add("u", []eviction.Volume{emptyDir("v")})
		d.chunks["v"] = 1
		req := request(eviction.DetailPod, eviction.NodeFsAvailable, row)
		for _, c := range []struct {
			change func()
			want   int
		}{
			{func() {}, 1},
			{func() { req.Detail = eviction.DetailContainers }, 1}, // the victim of the pass
			{func() { req.View = eviction.ViewAfterReclaim }, 2},
			{func() { req.Pass++ }, 3},
			{func() { time.Sleep(sameViewLasts) }, 4},
			{func() { req.Pass = 0 }, 5},
			{func() {}, 6},
		} {
			c.change()
			if _, err := n.measure(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if d.opened["v"] != c.want {
				t.Errorf("walked %d times, want %d", d.opened["v"], c.want)
			}
		}
	})
}

// A walk that waits holds descriptors: of a mount that somebody wants to unmount,
// of a pod that is gone, of too many.
func TestWalksDoNotWaitForEver(t *testing.T) {
	story(t, func(t *testing.T, n *node, d *disk) {
		memory := n.add("memory", []eviction.Volume{{Name: "mounted", Kind: "emptyDir", Medium: "Memory"}})
		d.chunks["mounted"] = 50
		got := n.within(100*time.Millisecond, memory)
		if d.waiting() != 0 || got["memory"].State != eviction.Measured || got["memory"].Volumes[0].UsedBytes.Value == 0 {
			t.Errorf("%d walks wait in a mount, and measured %+v", d.waiting(), got["memory"])
		}
		var pods []eviction.Pod
		for i := range 3 * mostWaiting {
			name := fmt.Sprint("v", i)
			d.chunks[name] = 100
			pods = append(pods, n.add(name, []eviction.Volume{emptyDir(name)}))
		}
		got = n.within(5*time.Second, pods...)
		if len(got) != len(pods) || d.waiting() != mostWaiting {
			t.Errorf("%d pods answered and %d walks wait, want %d and %d", len(got), d.waiting(), len(pods), mostWaiting)
		}
		for range 20 {
			got = n.within(5*time.Second, pods...)
		}
		for uid, m := range got {
			if m.State != eviction.Measured || m.Volumes[0].InodesUsed.Value < chunkEntries {
				t.Errorf("%s: %+v, want a lower bound at least", uid, m)
			}
		}
		n.meter.Tidy()
		if want := 2 * (1 + len(pods)); len(n.meter.trees.byDir) != want { // a volume's and the pod's own
			t.Errorf("%d directories are remembered, want all %d", len(n.meter.trees.byDir), want)
		}
		time.Sleep(forgetAfter)
		n.meter.Tidy()
		if len(n.meter.trees.byDir) != 0 || d.waiting() != 0 {
			t.Errorf("%d directories are remembered and %d walks wait, want none", len(n.meter.trees.byDir), d.waiting())
		}
	})
}

func TestAReplacedMeterKeepsNothing(t *testing.T) {
	story(t, func(t *testing.T, n *node, d *disk) {
		row := n.add("u", []eviction.Volume{emptyDir("v")})
		d.chunks["v"] = 50
		n.within(100*time.Millisecond, row)
		if d.waiting() != 1 {
			t.Fatalf("%d walks wait, want one", d.waiting())
		}
		n.meter.Close()
		n.within(100*time.Millisecond, row) // was under way, as it were
		if d.waiting() != 0 {
			t.Errorf("%d walks wait after Close, want none", d.waiting())
		}
	})
}

func TestARuntimeThatHangsDoesNotTakeAllTheTime(t *testing.T) {
	story(t, func(t *testing.T, n *node, d *disk) {
		n.layout = eviction.LayoutImageFs
		row := n.add("u", []eviction.Volume{emptyDir("v")})
		d.chunks["v"] = 1
		n.runtime.Inject(fakecri.ListContainerStats, fakecri.Fault{Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, err := n.measure(ctx, request(eviction.DetailContainers, eviction.NodeFsAvailable, row))
		if err != nil || ctx.Err() != nil {
			t.Errorf("error %v, context %v, want an answer before the deadline", err, ctx.Err())
		}
		wantVolume(t, got["u"], "1Mi 20000")
		if of := got["u"].EphemeralStorageUsedBytes; of != eviction.Some(1<<20) {
			t.Errorf("ephemeral storage %+v, want that of the volume, which may exceed the limit alone", of)
		}
	})
}

// Few files with many links used up what may be looked at, and what came after them was
// not counted: an innocent pod was evicted.
func TestManyLinksHideNothing(t *testing.T) {
	n := newNode(t)
	n.start(Walk{EntriesPerMeasure: chunkEntries, Parallel: 1})
	hog, innocent := n.add("hog", []eviction.Volume{emptyDir("links")}), n.add("innocent", []eviction.Volume{emptyDir("v")})
	const links, volumes = "/kubelet/pods/hog/volumes/kubernetes.io~empty-dir/links", "/kubelet/pods/innocent/volumes/kubernetes.io~empty-dir/v"
	for i := range 3 {
		dir := fmt.Sprintf("%s/%d/", links, i)
		file := n.path(n.write(dir+"file", 1<<20))
		for link := range chunkEntries + chunkEntries/4 {
			if err := os.Link(file, n.path(dir+strconv.Itoa(link))); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.write(volumes+"/file", 1<<20+1<<19)
	got, err := n.measure(t.Context(), request(eviction.DetailPod, eviction.NodeFsAvailable, innocent, hog))
	if err != nil {
		t.Fatal(err)
	}
	for uid, dir := range map[string]string{"hog": links, "innocent": volumes} {
		m := got[uid]
		if used, want := m.UsageFor(eviction.NodeFsAvailable), n.du(dir).Bytes; used != want {
			t.Errorf("%s uses %d, want %d as du says", uid, used, want)
		}
	}
	wantOrder(t, got, "hog innocent", innocent, hog)
}
