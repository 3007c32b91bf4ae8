package host

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/host/internal/observe"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// The runtime named a directory of images that did not exist: imagefs was unknown, and neither
// /healthz nor evictd check said so.
func TestAnImageFilesystemThatIsNotThereIsSaid(t *testing.T) {
	s, dir := fakecri.Start(t), t.TempDir()
	c := &Config{ImageEndpoint: s.Endpoint(), KubeletRootDir: dir, RootDir: "/"}
	for name, step := range map[string]struct {
		info *runtimeapi.ImageFsInfoResponse
		dir  string
		want string
	}{
		"not implemented": {nil, "", "code = Unimplemented"},
		"none":            {&runtimeapi.ImageFsInfoResponse{}, "", "the container runtime names no directory of images"},
		"not there":       {nil, dir + "/gone", "stat " + dir + "/gone: no such file or directory: without that directory imagefs and containerfs are not observed"},
		"there":           {nil, dir, ""},
	} {
		s.SetImageFs(step.info)
		if step.dir != "" {
			s.SetImageDir(step.dir)
		}
		got := strings.Join(checkImageFs(t.Context(), c), " ")
		if !strings.Contains(got, step.want) || (got == "") != (step.want == "") {
			t.Errorf("%s: %q, want %q", name, got, step.want)
		}
	}
	s.Die()
	if got := checkImageFs(t.Context(), c); len(got) > 0 {
		t.Errorf("%q of a runtime that does not answer, which is said elsewhere", got)
	}
}

func TestAHardThresholdOfASignalThatIsUnknownIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const signal = eviction.ImageFsAvailable
		unknown := observe.SignalStatus{Observation: decision.Observation{Signal: signal, State: decision.StateUnknown, Err: "no such directory"}, UnknownSince: time.Now()}
		off := observe.SignalStatus{Observation: decision.Observation{Signal: signal, State: decision.StateUnknown, Err: "no running plugin observes it"}}
		say := func(o observe.SignalStatus, hard bool) string {
			return fmt.Sprint(ineffective(&loop.Snapshot{
				Signals: []observe.SignalStatus{o}, Thresholds: []decision.Threshold{{Signal: signal, GracePeriod: map[bool]string{false: "1m"}[hard]}},
			}))
		}
		time.Sleep(29 * time.Second)
		if got := say(unknown, true); got != "[]" {
			t.Errorf("after 29 s: %s", got)
		}
		time.Sleep(time.Second)
		const want = "[imagefs.available is unknown since 2000-01-01T00:00:00Z and its hard threshold has no effect: no such directory]"
		if got := say(unknown, true); got != want {
			t.Errorf("after 30 s: %s, want %s", got, want)
		}
		if soft, none := say(unknown, false), say(off, true); soft != "[]" || none != "[]" {
			t.Errorf("a soft threshold: %s; a plugin that was removed: %s", soft, none)
		}
	})
}
