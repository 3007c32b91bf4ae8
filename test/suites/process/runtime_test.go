package process

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

func TestWithoutARuntimeItSaysSoAndEvictsWhenTheRuntimeComes(t *testing.T) {
	w := newWorld(t)
	w.runtime.Die()
	d := w.startReady()
	line := d.AwaitMsg("node or configuration is not as evictd needs it", 5*time.Second)
	wantAll(t, "the log", line.String("finding"), w.runtime.Endpoint(), "is the runtime running?")
	health := func(want int, says string) {
		t.Helper()
		daemon.Eventually(t, 5*time.Second, func() error {
			if code, text := d.Get("/healthz"); code != want || !strings.Contains(text, says) {
				return fmt.Errorf("/healthz = %d %q, want %d and %q", code, text, want, says)
			}
			return nil
		})
	}
	health(503, "pods have not been listed yet: ")
	w.pressure()
	d.AwaitMsg("pods are not known, nothing is evicted", 5*time.Second)
	if err := w.runtime.Revive(); err != nil {
		t.Fatal(err)
	}
	w.gone("big", 10*time.Second)
	health(200, "ok")
}

func TestARuntimeThatDiesInTheMiddleOfAKillIsAskedAgain(t *testing.T) {
	w := newWorld(t)
	d := w.startReady()
	w.runtime.Inject(fakecri.StopContainer, fakecri.Fault{Die: true, Times: 1})
	w.pressure()
	d.AwaitMsg("evicting pod", 5*time.Second)
	if err := w.runtime.Await(t.Context(), fakecri.StopContainer, 1); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if err := w.runtime.Revive(); err != nil {
		t.Fatal(err)
	}
	w.gone("big", 10*time.Second)

	d.AwaitMsg("pod finished", 10*time.Second)
	if !w.runtime.Running("uid-small") {
		t.Error("small is gone, want only big")
	}
}

func TestManifestsThatCannotBeUsedAreNamedAndTheRestWorks(t *testing.T) {
	w := newWorld(t)
	w.manifest("z-duplicate.yaml", "other", "uid-big")
	w.pod("broken", 4*gib, fakecri.Container{Name: "main"})
	write(t, filepath.Join(w.manifests, "broken.yaml"), "kind: Pod\nmetadata: {name: [\n")
	d := w.startReady()
	w.pressure()
	if got := d.AwaitMsg("evicting pod", 5*time.Second).String("pod"); got != "default/big" {
		t.Errorf("victim %s, want default/big: broken has no usable manifest", got)
	}
	daemon.Eventually(t, 5*time.Second, func() error {
		return saysAll(d.LogText(), "broken.yaml", "z-duplicate.yaml", "the running pod default/big, the manifest says default/other")
	})
	daemon.Eventually(t, 5*time.Second, func() error {
		_, status := d.Get("/status")
		return saysAll(status, "broken.yaml", "z-duplicate.yaml", "unmanagedPods", "default/broken")
	})
	if !w.runtime.Running("uid-broken") {
		t.Error("a pod without a usable manifest was killed")
	}
}

func TestNoOtherPodIsEvictedWhileTheVictimEnds(t *testing.T) {
	w := newWorld(t)
	w.pod("slow", 3*gib, fakecri.Container{Name: "main", DiesAfter: 700 * time.Millisecond, OnExit: w.relief})
	d := w.startReady()
	w.pressure()
	d.AwaitMsg("pod finished", 5*time.Second)
	if n := w.kills(); n != 1 || w.runtime.Running("uid-slow") {
		t.Errorf("%d kills, want one, of slow", n)
	}
	if len(d.Records("evicting pod")) != 1 {
		t.Errorf("%d decisions, want 1", len(d.Records("evicting pod")))
	}
}

// On a node without pods, of which only the runtime knew the cgroup driver, the host configured its
// plugins before it ran them, and waited for that for ever.
func TestOnANodeWithoutPodsTheRuntimeNamesTheCgroupDriver(t *testing.T) {
	w := emptyWorld(t)
	w.runtime.SetCgroupDriver(runtimeapi.CgroupDriver_SYSTEMD)
	d := w.startReady()
	_, status := d.Get("/status")
	wantAll(t, "status", status, `"driver": "systemd"`)
}
