package host

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/shared/eviction"
)

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
