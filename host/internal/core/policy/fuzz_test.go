package policy

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/shared/eviction"
)

// bytesLeft reads numbers from a fuzzer's bytes, and zeros when there are no more.
type bytesLeft []byte

func (b *bytesLeft) one() byte {
	if len(*b) == 0 {
		return 0
	}
	first := (*b)[0]
	*b = (*b)[1:]
	return first
}

func (b *bytesLeft) int64() int64 {
	var raw [8]byte
	n := copy(raw[:], *b)
	*b = (*b)[n:]
	return int64(binary.LittleEndian.Uint64(raw[:]))
}

// value returns an amount of any size, or any float32 as a part.
func (b *bytesLeft) value() Value {
	n := b.int64()
	if n&1 == 0 {
		return Value{Quantity: *resource.NewQuantity(n>>1, resource.BinarySI)}
	}
	return Value{Percentage: math.Float32frombits(uint32(n >> 1)), IsPercentage: true}
}

func (b *bytesLeft) input() Input {
	in := Input{
		Now: time.Unix(0, b.int64()), TransitionPeriod: time.Duration(b.int64()),
		Observations: map[eviction.Signal]eviction.Observation{},
	}
	signals := allSignals()
	for range b.one() % 8 {
		t := Threshold{Signal: signals[int(b.one())%len(signals)], Value: b.value(), GracePeriod: time.Duration(b.int64())}
		if b.one()&1 == 1 {
			t.MinReclaim = new(b.value())
		}
		in.Thresholds = append(in.Thresholds, t)
	}
	in.Thresholds = Define(in.Thresholds, ownDefinitions())
	for range b.one() % 8 {
		o := eviction.Observation{
			State: eviction.ObservationState(b.one() % 4), Available: b.int64(), Capacity: b.int64(),
			Time: time.Unix(0, b.int64()), BootNanos: b.int64(),
		}
		o.Signal = signals[int(b.one())%len(signals)]
		in.Observations[o.Signal] = o
	}
	return in
}

// Whatever thresholds, figures and clocks say, a pass has a result that makes
// sense in itself.
func FuzzAssess(f *testing.F) {
	f.Add([]byte{})
	f.Add(slices.Repeat([]byte{0xff}, 600))
	f.Add(slices.Repeat([]byte{3, 0, 0, 0, 0, 0, 0, 0x40, 7}, 80))
	f.Add([]byte(strings.Repeat("a pass, and one more pass. ", 30)))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := bytesLeft(data)
		var s State
		for range 6 {
			in := b.input()
			before := s
			var a Assessment
			s, a = Assess(s, in)
			if again, _ := Assess(before, in); !sameState(s, again) {
				t.Fatalf("two states from %+v", in)
			}
			observed := observedKeys(a)
			for _, th := range a.Met {
				if _, ok := observed[th.Key()]; !ok {
					t.Fatalf("%s is met, but not observed", th)
				}
			}
			for _, th := range a.Actionable {
				if in.Observations[th.Signal].State != eviction.Observed || !keys(a.Met)[th.Key()] {
					t.Fatalf("%s is acted on", th)
				}
			}
			if chosen, ok := Choose(a.Actionable); ok != (len(a.Actionable) > 0) || ok && !keys(a.Actionable)[chosen.Key()] {
				t.Fatalf("chose %s, %v", chosen, ok)
			}
			for _, th := range in.Thresholds {
				if n := Shortfall(th, in.Observations[th.Signal]); n < 1 {
					t.Fatalf("%s is short of %d", th, n)
				}
			}
			if UntilGraceEnds(a, in.Now) < 0 {
				t.Fatal("a grace period ends in the past")
			}
			if !slices.IsSorted(a.Conditions) {
				t.Fatalf("conditions %v", a.Conditions)
			}
		}
	})
}

// Whatever a plugin measures, a message keeps its form: it ends with a space, and
// its annotations name as many containers as figures.
func FuzzMessage(f *testing.F) {
	f.Add("memory.available", int64(1<<30), int64(1<<33), "main", int64(1<<29), int64(0), int64(0), uint8(0xff), uint32(0))
	f.Add("nodefs.available", int64(math.MinInt64), int64(math.MaxInt64), "main", int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), uint8(0xff), math.Float32bits(0.1))
	f.Add("pid.available", int64(-1), int64(-1), "", int64(-1), int64(math.MinInt64), int64(math.MinInt64), uint8(1), math.Float32bits(float32(math.Inf(1))))
	f.Add(string(spare), int64(3000), int64(128_000), "main", int64(1<<30), int64(1), int64(1), uint8(0xff), math.Float32bits(0.5))
	f.Add("acme.example/x", int64(0), int64(0), "%s%n\x00", int64(0), int64(0), int64(0), uint8(7), uint32(0x7fc00000))
	f.Fuzz(func(t *testing.T, signal string, available, capacity int64, name string, memory, rootfs, logs int64, has uint8, part uint32) {
		figure := func(bit int, v int64) eviction.Figure { return eviction.Figure{Value: v, OK: has>>bit&1 == 1} }
		pod := &v1.Pod{Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "main", Resources: requests("memory", "1Mi", "ephemeral-storage", "1Mi")}, {Name: name}},
			Resources:  new(requests("memory", "1Gi")),
		}}
		m := eviction.Measurement{State: eviction.MeasurementState(has >> 6), WorkingSetBytes: figure(0, memory)}
		for range has >> 4 & 3 {
			m.Containers = append(m.Containers, eviction.ContainerMeasurement{
				Name: name, WorkingSetBytes: figure(1, memory), RootfsUsedBytes: figure(2, rootfs), LogsUsedBytes: figure(3, logs),
			})
		}
		threshold := Threshold{Signal: eviction.Signal(signal), Value: Value{Percentage: math.Float32frombits(part), IsPercentage: part != 0}}
		threshold = Define([]Threshold{threshold}, ownDefinitions())[0]
		o := eviction.Observation{Signal: threshold.Signal, State: eviction.Observed, Available: available, Capacity: capacity}
		text, annotations := Message(true, pod, threshold, o, m)
		if !strings.HasPrefix(text, "The node was low on resource: ") || !strings.HasSuffix(text, ". ") {
			t.Fatalf("message %q", text)
		}
		if m.State != eviction.Measured && len(annotations) > 0 {
			t.Fatalf("annotations %v without figures", annotations)
		}
		if !strings.Contains(name, ",") {
			names, figures := strings.Count(annotations["offending_containers"], ","), strings.Count(annotations["offending_containers_usage"], ",")
			if names != figures {
				t.Fatalf("annotations %v", annotations)
			}
		}
	})
}
