package recorder

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
)

// samples is the number of samples kept of each signal, one per second: ten minutes.
const samples = 600

// series holds the last samples of signals. It is safe for concurrent use.
type series struct {
	mu    sync.Mutex
	rings map[eviction.Signal]*ring
}

// A ring holds one sample per second. A second without one repeats the second before.
type ring struct {
	last int64 // in seconds of Unix time
	// values may hold more than samples: old ones are dropped once in ten minutes.
	values []int64
	// repeated marks the values that repeat the second before.
	repeated []bool
	// capacity is the signal's, from the last sample.
	capacity int64
}

func (r *ring) recent() []int64 { return r.values[max(0, len(r.values)-samples):] }

// add records an observation at a time, replacing one of the same second.
func (s *series) add(at time.Time, o eviction.Observation) {
	if o.State != eviction.Observed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, second := s.rings[o.Signal], at.Unix()
	if r != nil && second < r.last && r.last-second < samples {
		return // observed when a background action began
	}
	if r == nil || second-r.last >= samples || second < r.last {
		s.rings[o.Signal] = &ring{last: second, values: []int64{o.Available}, repeated: []bool{false}, capacity: o.Capacity}
		return
	}
	for ; r.last < second; r.last++ {
		r.values, r.repeated = append(r.values, r.values[len(r.values)-1]), append(r.repeated, true)
	}
	if old := len(r.values) - samples; old >= samples {
		r.values, r.repeated = append(r.values[:0], r.values[old:]...), append(r.repeated[:0], r.repeated[old:]...)
	}
	last := len(r.values) - 1
	r.values[last], r.repeated[last], r.capacity = o.Available, false, o.Capacity
}

// others is the number of samples in a record for signals that it is not about.
const others = 120

// before returns the samples of signals up to a time, for a decision about one of them.
func (s *series) before(at time.Time, about eviction.Signal) []decision.Series {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []decision.Series
	for _, signal := range slices.Sorted(maps.Keys(s.rings)) {
		r := s.rings[signal]
		if at.Unix()-r.last >= samples {
			continue
		}
		values := r.recent()
		if signal != about {
			values = values[max(0, len(values)-others):]
		}
		out = append(out, r.series(signal, values, at))
	}
	return out
}

// after returns the samples of a signal since at, nil if there are none.
func (s *series) after(at time.Time, signal eviction.Signal) *decision.Series {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rings[signal]
	if r == nil || r.last <= at.Unix() {
		return nil
	}
	values := r.recent()
	out := r.series(signal, values[max(0, len(values)-int(r.last-at.Unix())):], at)
	return &out
}

// series returns the samples since at, with their times.
func (r *ring) series(signal eviction.Signal, values []int64, at time.Time) decision.Series {
	row := decision.Series{Signal: signal, UntilMS: decision.MS(time.Unix(r.last, 0), at), Unit: r.unit(signal), Available: make([]int64, len(values))}
	former, repeated := int64(0), r.repeated[len(r.values)-len(values):]
	for i, v := range values {
		row.Available[i] = v/row.Unit - former
		former = v / row.Unit
		if repeated[i] {
			row.Repeated = append(row.Repeated, i)
		}
	}
	return row
}

// steps bounds the resolution of samples in a record. At full resolution a busy node's noise would
// take up most of the record.
const steps = 4096

// unit returns the step to which samples are rounded: a power of two, at least 1 MiB for bytes.
func (r *ring) unit(s eviction.Signal) int64 {
	unit := int64(1)
	if d, _ := eviction.Builtin(s); d.Unit == eviction.UnitBytes {
		unit = 1 << 20
	}
	for unit < r.capacity/steps {
		unit *= 2
	}
	return unit
}

// calmShare is the part of the node's memory that is to spare, calmSamples the seconds that show it.
const calmShare, calmSamples = 20, 3

// calm reports whether the last samples of the node's memory had some to spare.
func (s *series) calm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rings[eviction.MemoryAvailable]
	if r == nil || time.Now().Unix()-r.last >= calmSamples {
		return false
	}
	for _, available := range r.values[max(0, len(r.values)-calmSamples):] {
		if available < r.capacity/calmShare {
			return false
		}
	}
	return true
}
