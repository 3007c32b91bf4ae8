package memory

import (
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/pace"
)

const mib = 1 << 20

func TestTheLevelFollowsThePageCache(t *testing.T) {
	w := watcher{Pace: pace.Pace{Thresholds: []eviction.Threshold{{Amount: 100 * mib}}, PerSecond: fillRate}, interval: 100 * time.Millisecond, farRate: farRate}
	m := nodefs.MemorySample{Limited: true, CapacityBytes: 1024 * mib, AvailableBytes: 300 * mib}
	m.UsageBytes = 724 * mib
	now := time.Unix(1000, 0)
	wants := func(want int64, what string) {
		t.Helper()
		now = now.Add(time.Second)
		if _, level := w.see(now, m); level != want {
			t.Errorf("level %d, want %d: %s", level, want, what)
		}
	}
	wants(924*mib+pageSize, "a page beyond capacity less threshold")
	m.UsageBytes += 50 * mib
	m.InactiveFileBytes = 50 * mib
	wants(974*mib+pageSize, "50 MiB of inactive cache came: usage grew, what is available did not")
	m.InactiveFileBytes = 0
	m.AvailableBytes -= 50 * mib
	wants(924*mib+pageSize, "they became active: the usage stayed")
	m.AvailableBytes = 99 * mib
	wants(0, "all thresholds are met")
	for left, want := range map[int64]time.Duration{
		100 * mib: 100 * mib / 4, // by the fastest rate
		800 * mib: 100 * time.Millisecond,
		16 << 30:  (16 << 30) / farRate,
		64 << 30:  armedInterval,
	} {
		far := nodefs.MemorySample{Limited: true, CapacityBytes: 100 << 30, AvailableBytes: left + 100*mib}
		if v, _ := w.see(now.Add(time.Hour), far); v.Again != want {
			t.Errorf("%d MiB from the threshold, without a notification, again in %v, want %v", left/mib, v.Again, want)
		}
	}
	m.Limited = false
	wants(0, "without a limit")
}

func TestTheLevelIsSetAgainOnlyWhenItIsOff(t *testing.T) {
	a := newAlarm(nil, nil, nil)
	now := time.Unix(1000, 0)
	limitOf := ""
	asks := func(level, usage int64) bool {
		t.Helper()
		a.follow(now, limitOf, level, usage)
		select {
		case got := <-a.want:
			if want := (wanted{limitOf, level}); got != want {
				t.Errorf("asked for %v, want %v", got, want)
			}
			a.armed.Store(got.level)
			return true
		default:
			return false
		}
	}
	for _, c := range []struct {
		what         string
		level, usage int64
		want         bool
	}{
		{"the first", 900 * mib, 100 * mib, true},
		{"the same", 900 * mib, 100 * mib, false},
		{"a little off, far away", 910 * mib, 100 * mib, false},
		{"the same while near", 910 * mib, 880 * mib, true},
		{"too high by 20 MiB, near", 890 * mib, 885 * mib, true},
		{"passed on the way", 891 * mib, 890 * mib, true},
		{"nothing to cross", 0, 900 * mib, true},
		{"still nothing", 0, 900 * mib, false},
	} {
		if got := asks(c.level, c.usage); got != c.want {
			t.Errorf("%s: asked = %v, want %v", c.what, got, c.want)
		}
	}
	asks(900*mib, 100*mib)
	a.armed.Store(0) // it could not be set
	if asks(900*mib, 100*mib) {
		t.Error("asked again at once after a failure")
	}
	now = now.Add(retryAfter)
	if !asks(900*mib, 100*mib) {
		t.Error("did not ask again a second after a failure")
	}
	limitOf = "/tenant"
	if !asks(900*mib, 100*mib) || asks(900*mib, 100*mib) {
		t.Error("did not ask once for the same level of another cgroup")
	}
}
