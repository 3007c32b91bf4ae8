package whatif

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// An Earlier says when other thresholds would have asked for an eviction, as far back as the samples of
// a record go. It is exact to a second if Exact is set, else an estimate.
type Earlier struct {
	// Threshold asks first. It is empty if none does by the time of the decision.
	Threshold string
	// Seconds counts from when it asks to the decision, AtLeast: or more, as it was met from the first
	// sample on.
	Seconds        int64
	AtLeast, Exact bool
	// Doubt is why it is an estimate, empty if it is exact.
	Doubt string
	// First is the pod that would have been evicted first then, empty if unknown. The figures that say
	// so are of FirstSeconds after that, negative before it. FirstExact: of that second.
	First        string
	FirstSeconds int64
	FirstExact   bool
	// SameVictim: First is the evicted pod.
	SameVictim bool
	// LaterSeconds is for an empty Threshold: an estimate of how long after the decision the first one
	// asks, at the rate of the last ten seconds, negative if it does not.
	LaterSeconds float64
	// Running: the threshold was met, and LaterSeconds is the rest of its grace period.
	Running bool
	// Unknown lists the signals of thresholds that the record has no samples of.
	Unknown []eviction.Signal
}

// rateOver is the time over which the rate of a signal that fell in the last stillOver seconds is
// estimated, firstWithin bounds the time to the figures that say who was first.
const (
	rateOver  = 10
	stillOver = 3
	// maxDistanceMS bounds the time from the last sample to the decision: a file may be wrong.
	maxDistanceMS = 3.6e6
	firstWithin   = 60
)

// Met returns when thresholds other than the recorded ones would have asked for an eviction. Recorded
// ones that were not met are left out: they asked for none.
func Met(r *decision.Decision, thresholds []policy.Threshold) (Earlier, error) {
	other, err := others(r, thresholds)
	if err != nil {
		return Earlier{}, err
	}
	lines, unknown := linesOf(r, other)
	if len(lines) == 0 && len(unknown) > 0 {
		return Earlier{}, fmt.Errorf("the record has no samples of %s", unknown[0])
	}
	low, high := run(r, other, lines, false), run(r, other, lines, true)
	out := Earlier{Unknown: unknown, LaterSeconds: -1}
	if low.at != high.at || low.acted != high.acted {
		low, out.Doubt = high, "between two steps of the samples"
	}
	if slices.ContainsFunc(lines, func(l line) bool { return l.gapBefore(low.at) }) {
		out.Doubt = "a second without a sample"
	}
	if slices.ContainsFunc(r.Marks, func(m decision.Mark) bool { return m.What == decision.MarkWait && unix(r, m.MS) < low.at }) {
		out.Doubt = "after another victim" // without which the samples would be others
	}
	if len(unknown) > 0 {
		out.Doubt = "signals without samples"
	}
	out.Exact = out.Doubt == ""
	if low.acted == "" {
		out.LaterSeconds, out.Running = later(r, other, lines, low.state)
		return out, nil
	}
	out.Threshold, out.Seconds, out.AtLeast = low.acted, unix(r, r.Timeline.ObservedMS)-low.at, low.fromStart
	out.first(r, low.at)
	return out, nil
}

// others returns the thresholds that are not recorded as in force and not met.
func others(r *decision.Decision, thresholds []policy.Threshold) (out []policy.Threshold, err error) {
	for _, t := range thresholds {
		same := slices.IndexFunc(r.Thresholds, func(was decision.Threshold) bool {
			p, wrong := was.Policy()
			err = cmp.Or(err, wrong)
			return wrong == nil && p.Key() == t.Key() && reclaimOf(p) == reclaimOf(t)
		})
		if same < 0 || r.Thresholds[same].Since != nil || r.Thresholds[same].InForce != nil {
			out = append(out, t)
		}
	}
	return out, err
}

func reclaimOf(t policy.Threshold) string {
	if t.MinReclaim == nil {
		return ""
	}
	return t.MinReclaim.String()
}

// A line holds the samples of a signal by their seconds of Unix time. known marks the last one as the
// decision's own figure, which is not rounded.
type line struct {
	signal         eviction.Signal
	capacity, unit int64
	seconds        []int64
	values         []int64
	repeated       []int
	known          bool
}

// unix returns the second of Unix time of a time in a record.
func unix(r *decision.Decision, ms float64) int64 {
	return int64(math.Floor((float64(r.Time.UnixMicro())/1000 + ms + 0.5) / 1000))
}

func linesOf(r *decision.Decision, thresholds []policy.Threshold) (lines []line, unknown []eviction.Signal) {
	for _, t := range thresholds {
		if slices.ContainsFunc(lines, func(l line) bool { return l.signal == t.Signal }) || slices.Contains(unknown, t.Signal) {
			continue
		}
		at := slices.IndexFunc(r.Signals, func(s decision.Series) bool { return s.Signal == t.Signal && len(s.Available) > 0 && s.Unit > 0 })
		o := r.Observation(t.Signal)
		if at < 0 || o == nil || o.State != decision.StateObserved || !(math.Abs(r.Signals[at].UntilMS) <= maxDistanceMS) {
			unknown = append(unknown, t.Signal)
			continue
		}
		s := &r.Signals[at]
		l := line{signal: t.Signal, capacity: o.Capacity, unit: s.Unit, values: s.Values(), repeated: s.Repeated}
		for last, i := unix(r, s.UntilMS), 0; i < len(l.values); i++ {
			l.seconds = append(l.seconds, last-int64(len(l.values)-1-i))
		}
		if last := len(l.values) - 1; l.seconds[last] == unix(r, r.Timeline.ObservedMS) {
			l.values[last], l.known = o.Available, true
		}
		lines = append(lines, l)
	}
	return lines, unknown
}

// gapBefore reports whether a second up to at has no sample of its own, in which the signal may have been lower.
func (l *line) gapBefore(at int64) bool {
	return slices.ContainsFunc(l.repeated, func(i int) bool { return i >= 0 && i < len(l.seconds) && l.seconds[i] <= at })
}

// at returns the sample of a second: the least that it can have been, or the most.
func (l *line) at(second int64, most bool) (o eviction.Observation, first, ok bool) {
	i, ok := slices.BinarySearch(l.seconds, second)
	if !ok {
		return o, false, false
	}
	o = eviction.Observation{Signal: l.signal, State: eviction.Observed, Available: l.values[i], Capacity: l.capacity}
	if most && (!l.known || i < len(l.values)-1) {
		o.Available += l.unit - 1
	}
	return o, i == 0, true
}

// A met says when thresholds asked for an eviction first, and the state of all in the end.
type met struct {
	acted     string
	at        int64
	fromStart bool
	state     policy.State
}

// run assesses thresholds at each sample, until one asks for an eviction.
func run(r *decision.Decision, thresholds []policy.Threshold, lines []line, most bool) (out met) {
	from, begun := r.Time.Unix(), map[eviction.Signal]bool{}
	for _, l := range lines {
		from, out.at = min(from, l.seconds[0]), max(out.at, l.seconds[len(l.seconds)-1])
	}
	for second, end := from, out.at; second <= end; second++ {
		observed, starts := map[eviction.Signal]eviction.Observation{}, map[eviction.Signal]bool{}
		for i := range lines {
			if o, first, ok := lines[i].at(second, most); ok {
				observed[o.Signal], starts[o.Signal] = o, first
			}
		}
		var a policy.Assessment
		out.state, a = policy.Assess(out.state, policy.Input{Now: time.Unix(second, 0), Thresholds: thresholds, Observations: observed})
		for _, o := range a.Observed {
			begun[o.Signal] = begun[o.Signal] || starts[o.Signal] // it may have been met before
		}
		if t, ok := policy.Choose(a.Actionable); ok {
			out.acted, out.at, out.fromStart = t.String(), second, begun[t.Signal]
			return out
		}
	}
	return out
}

// first sets the pod that would have been evicted first at a second.
func (e *Earlier) first(r *decision.Decision, at int64) {
	if r.Ranker != nil && r.Ranker.Custom {
		return
	}
	nearest := int64(firstWithin + 1)
	take := func(pod string, ms float64) {
		if away := unix(r, ms) - at; pod != "" && max(away, -away) < nearest {
			nearest, e.First, e.FirstSeconds = max(away, -away), pod, away
			e.SameVictim = r.Victim != nil && pod == r.Victim.Pod
		}
	}
	if len(r.Order) > 0 {
		take(r.Candidates[r.Order[0]].Pod, r.Timeline.ObservedMS)
	}
	for _, s := range r.Usage {
		take(s.First, s.MS)
	}
	e.FirstExact = e.Exact && !e.AtLeast && nearest == 0
}

// later estimates how long after the decision the first of thresholds asks, negative if none does, and
// whether it is met.
func later(r *decision.Decision, thresholds []policy.Threshold, lines []line, state policy.State) (soonest float64, running bool) {
	soonest = -1
	_, a := policy.Assess(state, policy.Input{Now: r.Time, Thresholds: thresholds}) // nothing is new
	for _, t := range thresholds {
		at := slices.IndexFunc(lines, func(l line) bool { return l.signal == t.Signal })
		if at < 0 {
			continue
		}
		l, wait, met := &lines[at], math.Inf(1), false
		last, amount := len(l.values)-1, t.Amount(l.capacity)
		for _, o := range a.Observed {
			if o.Key() == t.Key() {
				wait, met = math.Max(0, (t.GracePeriod-r.Time.Sub(o.FirstObservedAt)).Seconds()), true
			}
		}
		still := l.values[max(0, last-stillOver)] > l.values[last]
		if fall := l.values[max(0, last-rateOver)] - l.values[last]; fall > 0 && still && !met {
			missing := max(0, l.values[last]-amount.Value())
			wait = float64(missing)/float64(fall)*float64(min(last, rateOver)) + t.GracePeriod.Seconds()
		}
		if !math.IsInf(wait, 1) && (soonest < 0 || wait < soonest) {
			soonest, running = wait, met
		}
	}
	return soonest, running
}
