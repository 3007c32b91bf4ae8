package pace

import (
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	mib      = 1 << 20
	capacity = 1024 * mib
)

// story feeds a pace one sample after the other on a clock of its own.
type story struct {
	*testing.T
	pace *Pace
	now  time.Time
}

func tell(t *testing.T, thresholds ...int64) *story {
	s := &story{T: t, now: time.Unix(1000, 0)}
	var list []eviction.Threshold
	for _, bytes := range thresholds {
		list = append(list, eviction.Threshold{Amount: bytes})
	}
	s.pace = &Pace{Thresholds: list, PerSecond: 4e9, Repeat: true}
	return s
}

func (s *story) look(after time.Duration, available int64) Verdict {
	s.now = s.now.Add(after)
	return s.pace.Look(s.now, available, capacity, time.Second)
}

func (s *story) wants(v Verdict, wake bool, what string) {
	s.Helper()
	if v.Wake != wake {
		s.Errorf("%s: wake = %v, want %v", what, v.Wake, wake)
	}
}

func TestACrossingWakesAtOnce(t *testing.T) {
	s := tell(t, 100*mib)
	s.wants(s.look(0, 500*mib), false, "far above")
	s.wants(s.look(time.Second, 100*mib), false, "exactly at the threshold")
	s.wants(s.look(time.Millisecond, 100*mib-1), true, "a byte below")
}

func TestAHardThresholdBelowASoftOneWakesAtOnce(t *testing.T) {
	s := tell(t, 200*mib, 100*mib)
	s.wants(s.look(0, 150*mib), true, "below the soft one")
	s.wants(s.look(10*time.Millisecond, 140*mib), false, "still between")
	s.wants(s.look(time.Millisecond, 90*mib), true, "below the hard one")
}

func TestAPercentageIsOfTheCapacity(t *testing.T) {
	p := Pace{Thresholds: []eviction.Threshold{{Fraction: 0.5}}, PerSecond: 4e9}
	if v := p.Look(time.Unix(1000, 0), 512*mib, capacity, time.Second); v.Wake {
		t.Error("woke at exactly a half")
	}
	if v := p.Look(time.Unix(1001, 0), 512*mib-1, capacity, time.Second); !v.Wake {
		t.Error("did not wake below a half")
	}
}

func TestStayingUnderWakesAgainButSeldom(t *testing.T) {
	s := tell(t, 100*mib)
	wakes, last := 0, time.Duration(0)
	for at := time.Duration(0); at < 10*time.Second; at += 10 * time.Millisecond {
		if s.look(10*time.Millisecond, 50*mib).Wake {
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
		if s.look(2*time.Millisecond, int64(90+i%2*20)*mib).Wake {
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
	s.look(0, 90*mib)
	reported := false
	for range 100 {
		reported = reported || s.look(10*time.Millisecond, 500*mib).Wake
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
		"far":       {900 * mib, 900 * mib / 4},
		"half way":  {400 * mib, 400 * mib / 4},
		"near":      {40 * mib, 40 * mib / 4},
		"very near": {mib, tightInterval},
		"touching":  {0, tightInterval},
	} {
		if v := s.look(time.Second, 100*mib+c.distance); v.Again != c.want {
			t.Errorf("%s: again in %v, want %v", name, v.Again, c.want)
		}
	}
}

func TestTheIntervalIsAtMostTheCallers(t *testing.T) {
	p := Pace{Thresholds: []eviction.Threshold{{Amount: mib}}, PerSecond: 4e9}
	if v := p.Look(time.Unix(1000, 0), 1000*mib, capacity, 100*time.Millisecond); v.Again != 100*time.Millisecond {
		t.Errorf("again in %v, want 100ms", v.Again)
	}
}

func TestStayingCloseIsNotPolledTightlyForEver(t *testing.T) {
	s := tell(t, 100*mib)
	var v Verdict
	for range tightLooks + 1 {
		v = s.look(tightInterval, 101*mib)
	}
	if v.Again != closeInterval {
		t.Errorf("again in %v, want %v after a while", v.Again, closeInterval)
	}
	for range closeLooks {
		v = s.look(closeInterval, 101*mib)
	}
	if v.Again != patientInterval {
		t.Errorf("again in %v, want %v after a long while", v.Again, patientInterval)
	}
	s.look(time.Second, 900*mib)
	if v = s.look(time.Second, 101*mib); v.Again != tightInterval {
		t.Errorf("again in %v, want %v on coming back", v.Again, tightInterval)
	}
}

func TestNothingLeftToCross(t *testing.T) {
	for name, thresholds := range map[string][]int64{"all are met": {200 * mib}, "a threshold of zero": {0}, "none": nil} {
		s := tell(t, thresholds...)
		if v := s.look(0, 100*mib); v.Left != -1 || v.Again < firstRepeat {
			t.Errorf("%s: %d left, again in %v, want nothing left", name, v.Left, v.Again)
		}
	}
}

func TestAFigureThatVanishesMeetsNothing(t *testing.T) {
	s := tell(t, 100*mib)
	s.wants(s.look(0, 50*mib), true, "below")
	s.wants(s.pace.Lost(time.Second), false, "without a figure")
	s.wants(s.look(time.Second, 50*mib), true, "below again, which is a new crossing")
}

// The host acts on a disk for as long as that takes, and looks again when it has ended.
func TestStayingUnderIsNotRepeatedIfNotAskedFor(t *testing.T) {
	s := tell(t, 100*mib, 50*mib)
	s.pace.Repeat = false
	wakes := 0
	for range 1000 {
		if s.look(10*time.Millisecond, 90*mib).Wake {
			wakes++
		}
	}
	s.wants(s.look(time.Second, 40*mib), true, "below the other threshold")
	s.look(time.Second, 200*mib)
	s.wants(s.look(time.Second, 90*mib), true, "below again")
	if wakes != 1 {
		t.Errorf("%d wakes in 10 s under the threshold, want one", wakes)
	}
}

func TestTheHostPreparesNearAThreshold(t *testing.T) {
	s := tell(t, 100*mib)
	if s.look(0, 1000*mib).Near {
		t.Error("near at a distance that memory needs 200 ms for")
	}
	nears := 0
	for range 1000 { // 10 s
		if v := s.look(10*time.Millisecond, 200*mib); v.Near && !v.Wake {
			nears++
		}
	}
	if nears != mostNear {
		t.Errorf("near %d times in a row, want %d, a listing each %v", nears, mostNear, nearInterval)
	}
	for left, want := range map[int64]bool{76 * mib: false, 74 * mib: true} { // of 100
		other := *s.pace
		if v := other.Look(s.now.Add(time.Second), 100*mib+left, capacity, time.Second); v.Near != want {
			t.Errorf("near: %v when %d MiB are left of 100, want %v", v.Near, left/mib, want)
		}
	}
	if v := s.look(time.Second, 99*mib); v.Near || !v.Wake {
		t.Errorf("%+v at the crossing, want a wake", v)
	}
	if s.look(time.Second, 1000*mib).Near || !s.look(time.Second, 200*mib).Near {
		t.Error("not near on coming back, want it once more")
	}
}

// A disk that a build fills and empties each second cost a pod each time, where a kubelet takes one in ten seconds.
func TestASignalThatFlapsWakesAsOftenAsAKubeletLooks(t *testing.T) {
	s := tell(t, 100*mib, 50*mib)
	s.pace.Repeat = false
	wakes := 0
	for i := range 6000 { // a minute
		available := int64(200 * mib)
		if i/50%2 == 1 {
			available = 90 * mib
		}
		if s.look(10*time.Millisecond, available).Wake {
			wakes++
		}
	}
	if wakes != 6 {
		t.Errorf("%d wakes in a minute of flapping, want 6", wakes)
	}
	s.look(time.Minute, 200*mib)
	s.wants(s.look(time.Second, 90*mib), true, "below")
	s.wants(s.look(time.Second, 40*mib), true, "below the other threshold a second later")
	s.look(time.Second, 200*mib)
	s.wants(s.look(time.Second, 40*mib), false, "below both again")
	v := s.look(7*time.Second, 40*mib)
	s.wants(v, true, "below the first for 10 s")
}
