package podusage

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// chosen measures pods as the host does, for half a minute, again those that may hold more than
// the first, and returns the first one.
func chosen(n *node, rows []eviction.Pod) (first string, took time.Duration) {
	n.t.Helper()
	began, last := time.Now(), map[string]eviction.Measurement{}
	for open := rows; len(open) > 0 && time.Since(began) < 30*time.Second; {
		ctx, cancel := context.WithTimeout(n.t.Context(), 5*time.Second)
		got, err := n.measure(ctx, request(eviction.DetailPod, eviction.NodeFsAvailable, open...))
		cancel()
		if err != nil {
			n.t.Fatal(err)
		}
		open = nil
		maps.Copy(last, got)
		var all []eviction.Candidate
		for _, row := range rows {
			all = append(all, eviction.Candidate{Pod: row, Measurement: last[row.UID]})
		}
		first = rank.Kubelet(all, eviction.NodeFsAvailable)[0].UID
		use := last[first]
		for _, row := range rows {
			if m := last[row.UID]; row.UID != first && len(m.Usage) > 0 && m.Usage[0].AtMost > use.Usage[0].Value {
				open = append(open, row)
			}
		}
	}
	return first, time.Since(began)
}

// A hundred small pods used up what one measurement reads, and a pod behind them went for all that no
// pod explained: 20 MiB, while the owner of 400 stayed.
func TestAHundredSmallPodsMakeNoInnocentPodGo(t *testing.T) {
	story(t, func(t *testing.T, n *node, _ *disk) {
		n.start(Walk{EntriesPerMeasure: 100 * chunkEntries})
		d := n.newDisk()
		var rows []eviction.Pod
		for i := range 100 {
			name := fmt.Sprint("small", i)
			rows = append(rows, n.add(name, []eviction.Volume{emptyDir(name)}, fakecri.Container{Name: "c"}))
			d.chunks[name] = 1
		}
		innocent := n.add("innocent", []eviction.Volume{emptyDir("v")}, fakecri.Container{Name: "c"})
		owner := n.add("owner", nil, fakecri.Container{Name: "c", LayerBytes: 400 << 20})
		d.chunks["v"], n.used = 20, 30<<30
		if first, took := chosen(n, append(rows, innocent, owner)); first != "owner" || took > 30*time.Second {
			t.Errorf("%s goes after %v, want the owner", first, took)
		}
	})
}

// coldFiles is a directory of 150 directories with 16,660 files each, on a disk.
const coldFiles = "/var/tmp/evictd-test-files"

// On a cold node with 2.5 million files the walks of most pods were unfinished, and any of them went.
func TestTheOwnerGoesOnAColdNodeWithMillionsOfFiles(t *testing.T) {
	if os.Getenv("EVICTD_NIGHTLY") == "" || os.Geteuid() != 0 {
		t.Skip("part of make nightly, as root: it drops the caches of the kernel")
	}
	const pods = 150
	if _, err := os.Stat(coldFiles); err != nil {
		t.Cleanup(func() { os.RemoveAll(coldFiles) })
	}
	for round := range 10 {
		n := newNode(t)
		n.root = coldFiles
		n.start(Walk{})
		var rows []eviction.Pod
		for i := range pods {
			uid := fmt.Sprint("pod", i)
			row := n.add(uid, []eviction.Volume{emptyDir("v")}, fakecri.Container{Name: "c"})
			rows = append(rows, row)
			dir := n.path(n.meter.places.volume(&row, &row.Volumes[0]))
			_ = os.Remove(filepath.Join(dir, "big")) // of a run that was killed
			if _, err := os.Stat(filepath.Join(dir, "0")); err != nil {
				n.fill(n.meter.places.volume(&row, &row.Volumes[0]), 16_660)
			}
		}
		owner := rows[round*pods/10]
		big := n.write(n.meter.places.volume(&owner, &owner.Volumes[0])+"/big", 400<<20)
		n.used = 30 << 30
		if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
			t.Fatal(err)
		}
		first, took := chosen(n, rows)
		t.Logf("round %d: %s goes after %v", round, first, took.Round(10*time.Millisecond))
		if first != owner.UID {
			t.Errorf("%s goes, want %s, which holds 400 MiB", first, owner.UID)
		}
		if err := os.Remove(n.path(big)); err != nil {
			t.Fatal(err)
		}
	}
}
