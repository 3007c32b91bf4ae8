package memory

import (
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

const mib = 1 << 20

// available is a sample of a node of 1 GiB with no page cache.
func available(bytes int64) nodefs.MemorySample {
	return nodefs.MemorySample{
		MemoryUse:      nodefs.MemoryUse{UsageBytes: 1024*mib - bytes},
		Limited:        true,
		CapacityBytes:  1024 * mib,
		AvailableBytes: bytes,
	}
}

// story feeds a pace one sample after the other on a clock of its own.
type story struct {
	*testing.T
	pace *pace
	now  time.Time
}

func tell(t *testing.T, thresholds ...int64) *story {
	s := &story{T: t, now: time.Unix(1000, 0)}
	var list []eviction.Threshold
	for _, bytes := range thresholds {
		list = append(list, eviction.Threshold{Amount: bytes})
	}
	s.pace = newPace(list, 100*time.Millisecond)
	return s
}

func (s *story) look(after time.Duration, m nodefs.MemorySample) verdict {
	s.now = s.now.Add(after)
	return s.pace.look(s.now, m, true)
}

func (s *story) wants(v verdict, wake bool, what string) {
	s.Helper()
	if v.wake != wake {
		s.Errorf("%s: wake = %v, want %v", what, v.wake, wake)
	}
}

func TestACrossingWakesAtOnce(t *testing.T) {
	s := tell(t, 100*mib)
	s.wants(s.look(0, available(500*mib)), false, "far above")
	s.wants(s.look(time.Second, available(100*mib)), false, "exactly at the threshold")
	s.wants(s.look(time.Millisecond, available(100*mib-1)), true, "a byte below")
}

func TestAHardThresholdBelowASoftOneWakesAtOnce(t *testing.T) {
	s := tell(t, 200*mib, 100*mib)
	s.wants(s.look(0, available(150*mib)), true, "below the soft one")
	s.wants(s.look(10*time.Millisecond, available(140*mib)), false, "still between")
	s.wants(s.look(time.Millisecond, available(90*mib)), true, "below the hard one")
}

func TestAPercentageIsOfTheCapacity(t *testing.T) {
	p := newPace([]eviction.Threshold{{Fraction: 0.5}}, time.Second)
	if v := p.look(time.Unix(1000, 0), available(512*mib), true); v.wake {
		t.Error("woke at exactly a half")
	}
	if v := p.look(time.Unix(1001, 0), available(512*mib-1), true); !v.wake {
		t.Error("did not wake below a half")
	}
}

func TestStayingUnderWakesAgainButSeldom(t *testing.T) {
	s := tell(t, 100*mib)
	wakes, last := 0, time.Duration(0)
	for at := time.Duration(0); at < 10*time.Second; at += 10 * time.Millisecond {
		if s.look(10*time.Millisecond, available(50*mib)).wake {
			if wakes > 0 && at-last > maxRepeat {
				t.Errorf("no wake between %v and %v", last, at)
			}
			wakes, last = wakes+1, at
		}
	}
	if wakes < 20 || wakes > 25 {
		t.Errorf("%d wakes in 10 s, want about 20", wakes)
	}
}

func TestFlappingNeverFloodsAndIsNotForgotten(t *testing.T) {
	s := tell(t, 100*mib)
	var wakes []time.Time
	for i := range 5000 { // 10 s, a crossing each 4 ms
		if s.look(2*time.Millisecond, available(int64(90+i%2*20)*mib)).wake {
			wakes = append(wakes, s.now)
		}
	}
	for i := range wakes {
		if i >= 10 && wakes[i].Sub(wakes[i-10]) < time.Second {
			t.Fatalf("11 wakes within %v, want at most 10 a second and signal", wakes[i].Sub(wakes[i-10]))
		}
	}
	if len(wakes) < 40 {
		t.Errorf("%d wakes in 10 s of flapping, want about 5 a second", len(wakes))
	}
	// The last crossing comes while no wake is allowed and recedes: it is reported
	// all the same as soon as one is.
	s.look(0, available(90*mib))
	reported := false
	for range 100 {
		reported = reported || s.look(10*time.Millisecond, available(500*mib)).wake
	}
	if !reported {
		t.Error("a crossing was forgotten")
	}
}

func TestTheIntervalShrinksWithTheDistance(t *testing.T) {
	s := tell(t, 100*mib)
	for name, c := range map[string]struct {
		distance int64
		want     time.Duration
	}{
		"far":       {900 * mib, 900 * mib / fillRate},
		"half way":  {400 * mib, 400 * mib / fillRate},
		"near":      {40 * mib, 40 * mib / fillRate},
		"very near": {mib, tightInterval},
		"touching":  {0, tightInterval},
	} {
		if v := s.look(time.Second, available(100*mib+c.distance)); v.again != c.want {
			t.Errorf("%s: again in %v, want %v", name, v.again, c.want)
		}
	}
}

func TestWithoutAKernelCallTheIntervalIsTheConfiguredOne(t *testing.T) {
	p := newPace([]eviction.Threshold{{Amount: mib}}, 100*time.Millisecond)
	if v := p.look(time.Unix(1000, 0), available(1000*mib), false); v.again != 100*time.Millisecond {
		t.Errorf("again in %v, want 100ms", v.again)
	}
}

func TestStayingCloseIsNotPolledTightlyForEver(t *testing.T) {
	s := tell(t, 100*mib)
	var v verdict
	for range tightLooks + 1 {
		v = s.look(tightInterval, available(101*mib))
	}
	if v.again != closeInterval {
		t.Errorf("again in %v, want %v after a while", v.again, closeInterval)
	}
	for range closeLooks {
		v = s.look(closeInterval, available(101*mib))
	}
	if v.again != patientInterval {
		t.Errorf("again in %v, want %v after a long while", v.again, patientInterval)
	}
	s.look(time.Second, available(900*mib))
	if v = s.look(time.Second, available(101*mib)); v.again != tightInterval {
		t.Errorf("again in %v, want %v on coming back", v.again, tightInterval)
	}
}

func TestTheLevelFollowsThePageCache(t *testing.T) {
	s := tell(t, 100*mib)
	m := available(300 * mib)
	v := s.look(0, m)
	if want := 924*mib + pageSize; v.level != want {
		t.Errorf("level %d, want %d: a page beyond capacity less threshold", v.level, want)
	}
	// 50 MiB of inactive cache come: usage grows, what is available does not.
	m.UsageBytes += 50 * mib
	m.InactiveFileBytes = 50 * mib
	if v = s.look(time.Second, m); v.level != 974*mib+pageSize {
		t.Errorf("level %d, want it 50 MiB higher", v.level)
	}
	// They become active: the usage stays, the level comes down.
	m.InactiveFileBytes = 0
	m.AvailableBytes -= 50 * mib
	if v = s.look(time.Second, m); v.level != 924*mib+pageSize {
		t.Errorf("level %d, want it down again", v.level)
	}
}

func TestNothingLeftToCross(t *testing.T) {
	for name, thresholds := range map[string][]int64{"all are met": {200 * mib}, "a threshold of zero": {0}, "none": nil} {
		s := tell(t, thresholds...)
		if v := s.look(0, available(100*mib)); v.level != 0 {
			t.Errorf("%s: level %d, want none", name, v.level)
		}
	}
}

func TestAFigureThatVanishesMeetsNothing(t *testing.T) {
	s := tell(t, 100*mib)
	s.wants(s.look(0, available(50*mib)), true, "below")
	s.wants(s.look(time.Second, nodefs.MemorySample{}), false, "without a limit")
	s.wants(s.look(time.Second, available(50*mib)), true, "below again, which is a new crossing")
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
