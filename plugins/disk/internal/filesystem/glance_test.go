package filesystem

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/evictd/evictd/shared/eviction"
)

func bySignal(all []eviction.Observation) map[eviction.Signal]eviction.Observation {
	out := map[eviction.Signal]eviction.Observation{}
	for _, o := range all {
		out[o.Signal] = o
	}
	return out
}

func TestAWatcherSeesWhatIsObserved(t *testing.T) {
	f := open(t, newNode(t), says("/var/lib/images"))
	look := f.Watcher(t.Context())
	before := bySignal(look(diskSignals))
	if o := before[eviction.NodeFsAvailable]; o.State != eviction.Observed {
		t.Errorf("nodefs.available before the first pass: %+v, want it observed", o)
	}
	if o, has := before[eviction.ImageFsAvailable]; has {
		t.Errorf("imagefs.available before the runtime was asked: %+v, want none", o)
	}
	want, _ := observe(t, f)
	for s, got := range bySignal(look(diskSignals)) {
		if w := want[s]; got.State != w.State || got.Capacity != w.Capacity {
			t.Errorf("%s: %+v, want the figures of %+v", s, got, w)
		}
	}
}

func TestAFilesystemThatHangsIsNotWatchedUntilItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, newNode(t), says("/var/lib/images"))
		observe(t, f)
		look := f.Watcher(t.Context())
		f.kubelet.slot <- struct{}{}
		for range 3 {
			got := bySignal(look(diskSignals))
			if o := got[eviction.NodeFsAvailable]; o.State != eviction.Unknown || !strings.Contains(o.Err, "not answer") {
				t.Errorf("nodefs.available while its filesystem hangs: %+v, want it unknown", o)
			}
			if o := got[eviction.ImageFsInodesFree]; o.State != eviction.Observed {
				t.Errorf("imagefs.inodesFree while another filesystem hangs: %+v, want it observed", o)
			}
		}
		<-f.kubelet.slot
		synctest.Wait()
		if o := bySignal(look(diskSignals))[eviction.NodeFsAvailable]; o.State != eviction.Observed {
			t.Errorf("nodefs.available when it answers: %+v, want it observed", o)
		}
	})
}
