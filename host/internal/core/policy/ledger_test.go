package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/shared/eviction"
)

// step is the time between two looks at a reliefWorld.
const step = 50 * time.Millisecond

// A reliefWorld is a node that is short of something and frees what a victim used so
// long after its end; its figure lags.
type reliefWorld struct {
	threshold Threshold
	uses      []int64 // of the pods, in the order in which they go
	available int64
	ends      time.Duration // a victim's, after the kill
	frees     time.Duration // after its end
	lags      time.Duration
	now       time.Duration
	ended     []time.Duration // when each victim so far ends
}

func (w *reliefWorld) String() string {
	return fmt.Sprintf("%s at %d, pods of %v, end after %v, freed after %v, seen after %v", w.threshold, w.available, w.uses, w.ends, w.frees, w.lags)
}

func newReliefWorld(r *rand.Rand) *reliefWorld {
	signals := []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable, eviction.PIDAvailable}
	w := &reliefWorld{
		threshold: Threshold{Signal: signals[r.IntN(len(signals))], Value: Value{Quantity: *resource.NewQuantity(1000, resource.BinarySI)}},
		available: r.Int64N(1000), ends: time.Duration(r.Int64N(int64(3 * time.Second))),
	}
	if r.IntN(2) == 0 {
		w.threshold.GracePeriod = time.Second
	}
	for range 12 {
		w.uses = append(w.uses, 1+r.Int64N(400))
	}
	w.frees = time.Duration(r.Int64N(int64(ReliefTime(w.threshold.Definition()))))
	return w
}

// needed returns the number of pods that must go.
func (w *reliefWorld) needed() int {
	n, available := 0, w.available
	for ; available < 1000 && n < len(w.uses); n++ {
		available += w.uses[n]
	}
	return n
}

func (w *reliefWorld) at(d time.Duration) Moment { return Moment{Time: storyStart.Add(d)} }

// really returns the amount available at a time.
func (w *reliefWorld) really(at time.Duration) int64 {
	available := w.available
	for i, end := range w.ended {
		if end+w.frees <= at {
			available += w.uses[i]
		}
	}
	return available
}

func (w *reliefWorld) observe() eviction.Observation {
	at := w.now - w.lags
	return eviction.Observation{Signal: w.threshold.Signal, State: eviction.Observed, Available: w.really(at), Capacity: 1 << 20, Time: storyStart.Add(at)}
}

// play has pods evicted by the ledger until the node is not short any more, and
// returns when that was.
func (w *reliefWorld) play() time.Duration {
	var l Ledger
	for w.now = 0; w.now < time.Hour; w.now += step {
		for i, end := range w.ended {
			if end <= w.now && end > w.now-step {
				l = l.Ended(fmt.Sprint(i), w.at(end))
			}
		}
		o := w.observe()
		seen := map[eviction.Signal]eviction.Observation{o.Signal: o}
		l = l.Observed(seen, metBy(w.threshold, o), w.at(w.now))
		if !w.threshold.met(o, false) {
			if w.really(w.now) >= 1000 && o.Available >= 1000 {
				break
			}
			continue
		}
		v := l.Judge(w.threshold, o, w.at(w.now))
		if !v.Go || len(w.ended) == len(w.uses) {
			continue
		}
		n := len(w.ended)
		p := Promise{UID: fmt.Sprint(n), Grace: 3 * time.Second, Frees: Relieved(w.threshold, nil, eviction.LayoutShared, eviction.Some(w.uses[n]))}
		l = l.Promised(p, w.threshold, seen, w.at(w.now))
		w.ended = append(w.ended, w.now+w.ends)
	}
	return w.relieved()
}

func metBy(t Threshold, o eviction.Observation) []Observed {
	if !t.met(o, false) {
		return nil
	}
	return []Observed{{Threshold: t}}
}

// relieved returns when the last of the needed victims has given back its use.
func (w *reliefWorld) relieved() time.Duration {
	n := w.needed()
	if n == 0 || n > len(w.ended) {
		return 0
	}
	return w.ended[n-1] + w.frees
}

// kubelet has the pods go as the kubelet's manager does, and returns when the node is
// not short any more: it waits for the kill, looks each second whether the pod is
// cleaned up, and then takes the next if the node is short.
func (w *reliefWorld) kubelet() time.Duration {
	for w.now = 0; w.really(w.now) < 1000 && len(w.ended) < len(w.uses); w.now += w.ends + time.Second {
		w.ended = append(w.ended, w.now+w.ends)
	}
	return w.relieved()
}

// In a world that frees with delay, and whose figures lag, exactly those go that must.
func TestNeverMoreVictimsThanTheShortageNeeds(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	for range 300 {
		w := newReliefWorld(r)
		if r.IntN(2) == 0 {
			w.lags = time.Duration(r.Int64N(int64(9 * time.Second)))
		}
		w.play()
		if len(w.ended) != w.needed() {
			t.Fatalf("%v: %d victims, want %d", w, len(w.ended), w.needed())
		}
	}
}

// The kubelet takes another pod each time that clean-up has ended, needed or not. The
// node is relieved no later than that would have relieved it.
func TestNeverLaterThanTheKubeletsOwnPacing(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 2))
	for range 300 {
		w := newReliefWorld(r)
		same := *w
		if took, kubelet := w.play(), same.kubelet(); took > kubelet {
			t.Fatalf("%v: relieved after %v, by the kubelet's pacing after %v", w, took, kubelet)
		}
	}
}

// Whatever is promised, measured and observed, a threshold that stays met has its next
// victim within a minute and the grace of the last one's end.
func TestNoThresholdWaitsForEver(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 3))
	for range 300 {
		w := newReliefWorld(r)
		o := eviction.Observation{Signal: w.threshold.Signal, State: eviction.Observed, Available: r.Int64N(999), Capacity: 1 << 20, Freeing: r.Int64()}
		if r.IntN(2) == 0 {
			o.Time = storyStart.Add(time.Duration(r.Int64N(int64(time.Hour))) - time.Hour) // stands still
		}
		use := eviction.Figure{OK: r.IntN(2) == 0, Value: r.Int64()}
		seen := map[eviction.Signal]eviction.Observation{o.Signal: o}
		l := Ledger{}.Promised(Promise{UID: "a", Frees: Relieved(w.threshold, nil, eviction.LayoutShared, use)}, w.threshold, seen, w.at(0))
		l = l.Ended("a", w.at(time.Second))
		late := w.at(time.Second + mostRelief)
		if v := l.Observed(seen, metBy(w.threshold, o), late).Judge(w.threshold, o, late); !v.Go {
			t.Fatalf("%v: %+v still waits %v after the end: %+v", w, o, mostRelief, v.Wait)
		}
	}
}

// tick is the resolution at which hogs are played.
const tick = time.Millisecond

// A hog takes memory from start on, at a rate, until it has size, and gives all of it back
// at freed.
type hog struct {
	start, released time.Duration
	rate            int64 // bytes a tick
	size            int64
}

func (h hog) uses(at time.Duration) int64 {
	if at < h.start || at >= h.released {
		return 0
	}
	return min(h.size, int64((at-h.start)/tick)*h.rate)
}

// Hogs cross a threshold one after the other, each as soon as what the last one used is
// back. The machine stalls between a sample and the measurement, and before the passes
// that follow a kill and an end. Each of them is the only victim of its crossing, and goes
// as soon as it has crossed and the machine does not stall.
func TestNoHogWaitsForTheReliefOfTheOneBefore(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 4))
	for round := range 1000 {
		threshold := Threshold{Signal: eviction.MemoryAvailable, Value: Value{Quantity: *resource.NewQuantity(1000<<20, resource.BinarySI)}}
		stall := func() time.Duration {
			if r.IntN(4) == 0 {
				return time.Duration(1+r.IntN(300)) * tick
			}
			return time.Duration(1+r.IntN(5)) * tick
		}
		var (
			l      Ledger
			hogs   []hog
			now    time.Duration
			free   = int64(1500) << 20
			at     = func() Moment { return Moment{Time: storyStart.Add(now)} }
			sample = func() (map[eviction.Signal]eviction.Observation, eviction.Observation) {
				available := free
				for _, h := range hogs {
					available -= h.uses(now)
				}
				o := eviction.Observation{Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: available, Capacity: 8 << 30, Time: storyStart.Add(now)}
				return map[eviction.Signal]eviction.Observation{o.Signal: o}, o
			}
		)
		for i := range 6 {
			h := hog{start: now + time.Duration(r.IntN(800))*tick, released: 1 << 62, rate: (100 + r.Int64N(3000)) << 20 / 1000, size: (600 + r.Int64N(400)) << 20}
			hogs = append(hogs, h)
			now = h.start + time.Duration((500<<20)/h.rate+1)*tick // it has crossed
			crossed := now
			waited := time.Duration(0)
			for pass := 0; ; pass++ {
				seen, o := sample()
				l = l.Observed(seen, metBy(threshold, o), at())
				v := l.Judge(threshold, o, at())
				if v.Go {
					now += stall()
					use := hogs[i].uses(now)
					l = l.Promised(Promise{UID: fmt.Sprint(i), Grace: time.Second, Frees: Relieved(threshold, nil, eviction.LayoutShared, eviction.Some(use))}, threshold, seen, at())
					break
				}
				next := max(tick, v.Wait.LookAt.Sub(at().Time))
				waited += next
				now += next
				if pass > 1000 {
					t.Fatalf("round %d: hog %d is never taken", round, i)
				}
			}
			if waited > 0 {
				t.Fatalf("round %d: hog %d crossed at %v and waited for %v", round, i, crossed, waited)
			}
			ends := now + time.Duration(100+r.IntN(900))*tick
			now = min(now+stall(), ends-tick)
			seen, o := sample() // of the pass after the kill
			l = l.Observed(seen, metBy(threshold, o), at())
			if o.Available < 1000<<20 && l.Judge(threshold, o, at()).Go {
				t.Fatalf("round %d: a second pod goes while hog %d is ending", round, i)
			}
			now, hogs[i].released = ends, ends
			l = l.Ended(fmt.Sprint(i), at())
			now += stall()
			seen, o = sample()
			l = l.Observed(seen, metBy(threshold, o), at())
		}
	}
}

// A choice that takes long, as on disks, ends with a sample of before what has come back
// meanwhile. That does not count a second time.
func TestWhatHasComeBackDuringALongChoiceCountsOnce(t *testing.T) {
	threshold := Threshold{Signal: eviction.NodeFsAvailable, Value: Value{Quantity: *resource.NewQuantity(1000, resource.BinarySI)}}
	at := func(d time.Duration) Moment { return Moment{Time: storyStart.Add(d)} }
	sample := func(d time.Duration, available int64) map[eviction.Signal]eviction.Observation {
		o := eviction.Observation{Signal: threshold.Signal, State: eviction.Observed, Available: available, Capacity: 1 << 20, Time: storyStart.Add(d)}
		return map[eviction.Signal]eviction.Observation{o.Signal: o}
	}
	promise := func(uid string, use int64) Promise {
		return Promise{UID: uid, Grace: time.Second, Frees: Relieved(threshold, nil, eviction.LayoutShared, eviction.Some(use))}
	}
	var l Ledger
	look := func(d time.Duration, available int64) eviction.Observation {
		o := sample(d, available)[threshold.Signal]
		l = l.Observed(sample(d, available), metBy(threshold, o), at(d))
		return o
	}
	l = l.Promised(promise("first", 600), threshold, sample(0, 550), at(0))
	l = l.Ended("first", at(time.Second))
	look(2*time.Second, 850)
	l = l.Promised(promise("second", 100), threshold, sample(0, 550), at(2*time.Second))
	l = l.Ended("second", at(3*time.Second))
	if v := l.Judge(threshold, look(4*time.Second, 850), at(4*time.Second)); v.Go {
		t.Errorf("a third pod goes for a shortage of 150, and 300 of the first are still to come: %+v", l)
	}
}

// What a victim was to free and what of it came back is reported once, when nothing more is
// expected of it: it all came, its time is over, or it came in parts between which another
// victim grew.
func TestWhatCameBackIsSettledOnce(t *testing.T) {
	threshold := Threshold{Signal: eviction.MemoryAvailable, Value: Value{Quantity: *resource.NewQuantity(1000, resource.BinarySI)}}
	at := func(halfSeconds int) Moment {
		return Moment{Time: storyStart.Add(time.Duration(halfSeconds) * time.Second / 2)}
	}
	sample := func(halfSeconds int, available int64) map[eviction.Signal]eviction.Observation {
		return map[eviction.Signal]eviction.Observation{threshold.Signal: {
			Signal: threshold.Signal, State: eviction.Observed, Available: available, Capacity: 1 << 20, Time: at(halfSeconds).Time,
		}}
	}
	promised := func(l Ledger, uid string, use int64, halfSeconds int, available int64) Ledger {
		p := Promise{UID: uid, Pod: "ns/" + uid, Grace: time.Second, Frees: Relieved(threshold, nil, eviction.LayoutShared, eviction.Some(use))}
		return l.Promised(p, threshold, sample(halfSeconds, available), at(halfSeconds))
	}
	for name, c := range map[string]struct {
		available []int64 // half a second after the end, and each half a second later
		grows     bool
		want      Settlement
	}{
		"all at once":             {available: []int64{700}, want: Settlement{Released: 600}},
		"bit by bit":              {available: []int64{300, 700}, want: Settlement{Released: 600}},
		"less than was thought":   {available: []int64{300, 300, 300, 300}, want: Settlement{Released: 200}},
		"more than was thought":   {available: []int64{900}, want: Settlement{Released: 600}},
		"nothing":                 {available: []int64{100, 90, 100, 100}, want: Settlement{Released: 0}},
		"while another one grows": {available: []int64{400, 250, 550}, grows: true, want: Settlement{Released: 600}},
	} {
		t.Run(name, func(t *testing.T) {
			l := promised(Ledger{}, "first", 600, 0, 100)
			if c.grows {
				l = promised(l, "second", 50, 0, 100)
			}
			l = l.Ended("first", at(1))
			var reported []Settlement
			for i, available := range c.available {
				if c.grows && i == 1 {
					l = l.Measured("second", threshold, Relieved(threshold, nil, eviction.LayoutShared, eviction.Some(200)), sample(1+i, 0), at(1+i))
				}
				l = l.Observed(sample(2+i, available), metBy(threshold, sample(2+i, available)[threshold.Signal]), at(2+i))
				reported = append(reported, l.Settled()...)
			}
			c.want.UID, c.want.Pod, c.want.Signal, c.want.Promised = "first", "ns/first", threshold.Signal, eviction.Some(600)
			if len(reported) != 1 || reported[0] != c.want {
				t.Errorf("settled %+v, want %+v", reported, c.want)
			}
			if again := l.Observed(sample(200, 2000), nil, at(200)).Settled(); !c.grows && len(again) > 0 {
				t.Errorf("settled again: %+v", again)
			}
		})
	}
}

// A victim's promise was given up while the next one was ending: what it had been counted on for was taken for a shortage that
// grows, and another pod went.
func TestAPromiseThatIsGivenUpIsNoNewShortage(t *testing.T) {
	memory := Threshold{Signal: eviction.MemoryAvailable, Value: Value{Quantity: *resource.NewQuantity(1000, resource.BinarySI)}}
	// After one whose time was over without relief the pace is the kubelet's.
	for name, give := range map[string]func(l Ledger, seen map[eviction.Signal]eviction.Observation, at time.Time) Ledger{
		"no clean-up": func(l Ledger, _ map[eviction.Signal]eviction.Observation, at time.Time) Ledger {
			return l.Dropped("former", Moment{Time: at})
		},
		"its time over": func(l Ledger, seen map[eviction.Signal]eviction.Observation, at time.Time) Ledger {
			return l.Observed(seen, []Observed{{Threshold: memory}}, Moment{Time: at})
		},
	} {
		for _, more := range []int64{0, 600} {
			at := func(d time.Duration) Moment { return Moment{Time: storyStart.Add(d)} }
			seen := func(available int64, d time.Duration) map[eviction.Signal]eviction.Observation {
				return map[eviction.Signal]eviction.Observation{memory.Signal: {Signal: memory.Signal, State: eviction.Observed, Available: available, Capacity: 1 << 20, Time: storyStart.Add(d)}}
			}
			frees := func(use int64) map[eviction.Signal]eviction.Figure {
				return Relieved(memory, nil, eviction.LayoutShared, eviction.Some(use))
			}
			first := seen(700, 0)
			l := Ledger{}.Promised(Promise{UID: "former", Grace: time.Second, Frees: frees(2000)}, memory, first, at(0))
			if name != "no clean-up" {
				l = l.Ended("former", at(time.Second))
			}
			second := seen(700, 20*time.Second)
			l = l.Promised(Promise{UID: "next", Grace: 30 * time.Second, Frees: frees(200)}, memory, second, at(20*time.Second))
			d := 25 * time.Second
			o := seen(700-more, d)
			l = give(l, o, storyStart.Add(d)).Observed(o, []Observed{{Threshold: memory}}, at(d))
			l = l.Measured("next", memory, frees(200), o, at(d))
			if v := l.Judge(memory, o[memory.Signal], at(d)); v.Go != (more > 0 && name == "no clean-up") {
				t.Errorf("%s, %d less: %+v", name, more, v)
			}
		}
	}
}
