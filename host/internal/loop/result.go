package loop

import (
	"time"

	"github.com/evictd/evictd/host/internal/choose"
	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// A PassResult is what one pass saw, concluded and did, for who asked for the pass:
// an embedding program, a replay. It is not changed after it was returned.
type PassResult struct {
	// Pass numbers the pass, Time is the embedder's clock in it.
	Pass uint64    `json:"pass"`
	Time time.Time `json:"time"`
	// Signals are the observations, by name of the signal.
	Signals []decision.Observation `json:"signals,omitempty"`
	// Custom says what the signals are that are not the kubelet's.
	Custom map[eviction.Signal]*CustomSignal `json:"own,omitempty"`
	// Thresholds are those that are met, in the order of the configuration.
	Thresholds []MetThreshold `json:"thresholds,omitempty"`
	// Conditions are those reported after the pass, by name.
	Conditions []eviction.Condition `json:"conditions,omitempty"`
	// Chosen is the index in Thresholds of the one that was acted on, -1 if none
	// was.
	Chosen int `json:"chosen"`
	// Reclaim is what node-level reclaim did, step by step. ReclaimSufficed: every
	// threshold was satisfied after it, no pod had to go.
	Reclaim         []ReclaimResult `json:"reclaim,omitempty"`
	ReclaimSufficed bool            `json:"reclaimSufficed,omitempty"`
	// Ranker made the Ranking, which has the candidates, first to go first. It is
	// there if the manager is to explain its passes.
	Ranker  string      `json:"ranker,omitempty"`
	Ranking []RankedPod `json:"ranking,omitempty"`
	// Evicted are those that the pass decided on, as they were when it ended.
	Evicted []victim.Victim `json:"evicted,omitempty"`
	// MeasuringSeconds is how long pods were measured for the ranking.
	MeasuringSeconds float64 `json:"measuringSeconds,omitempty"`
}

// MetThreshold is a threshold that a pass found to be met, whatever its grace
// period.
type MetThreshold struct {
	Signal eviction.Signal `json:"signal"`
	// Quantity or Percentage is the value: a canonical quantity, or the part of
	// the capacity as the shortest text of its float32 (0.1 is 10 %).
	Quantity   string `json:"quantity,omitempty"`
	Percentage string `json:"percentage,omitempty"`
	// GracePeriod is empty for a hard threshold. MinReclaim is empty for none; a
	// part of the capacity ends in x, "0.02x".
	GracePeriod     string    `json:"gracePeriod,omitempty"`
	MinReclaim      string    `json:"minReclaim,omitempty"`
	FirstObservedAt time.Time `json:"firstObservedAt"`
	// GraceOver: it was met for its whole grace period. Actionable: and the
	// figures are newer than those of the last pass.
	GraceOver  bool `json:"graceOver"`
	Actionable bool `json:"actionable"`
}

// ReclaimResult is what came of one step of node-level reclaim.
type ReclaimResult = decision.Reclaim

// RankedPod is a candidate in its place, with the figures that put it there.
type RankedPod struct {
	UID      string `json:"uid"`
	Pod      string `json:"pod"`
	Priority int32  `json:"priority"`
	// State is "measured", "no stats" or "unknown".
	State string `json:"state"`
	// Usage and Request are in the base unit of the signal. Request is 0 where the
	// signal has none.
	Usage   int64 `json:"usage"`
	Request int64 `json:"request"`
	// LessBytes is what the kubelet's order takes off the use of inodes, although it is
	// in bytes: the request for ephemeral storage.
	LessBytes int64 `json:"lessBytes,omitempty"`
	// Reason is the ranker's, if it gave one.
	Reason string `json:"reason,omitempty"`
}

// complete says what p saw and concluded, beside what it did.
func (p *pass) complete(definitions map[eviction.Signal]eviction.Definition, conditions []eviction.Condition, explain bool) PassResult {
	r := p.result
	r.Pass, r.Time, r.Signals, r.Conditions, r.Chosen = p.at.Pass, p.now, decision.Observations(p.seen.Observations), conditions, -1
	r.Ranker, r.MeasuringSeconds = p.choice.Ranker, p.choice.Took.Seconds()
	for signal, d := range definitions {
		if r.Custom == nil {
			r.Custom = map[eviction.Signal]*CustomSignal{}
		}
		r.Custom[signal] = customSignal(d)
	}
	met, actionable := keysOf(p.assessment.Met), keysOf(p.assessment.Actionable)
	for i, t := range p.assessment.Observed {
		if p.chosen != nil && t.Key() == p.chosen.Key() {
			r.Chosen = i
		}
		r.Thresholds = append(r.Thresholds, metThreshold(t, met[t.Key()], actionable[t.Key()]))
	}
	if explain && p.chosen != nil {
		r.Ranking = rankedPods(&p.choice, p.chosen.Signal)
	}
	return r
}

func keysOf(thresholds []policy.Threshold) map[policy.Key]bool {
	keys := make(map[policy.Key]bool, len(thresholds))
	for _, t := range thresholds {
		keys[t.Key()] = true
	}
	return keys
}

func metThreshold(o policy.Observed, graceOver, actionable bool) MetThreshold {
	m := MetThreshold{Signal: o.Signal, FirstObservedAt: o.FirstObservedAt, GraceOver: graceOver, Actionable: actionable}
	m.Quantity, m.Percentage = o.Value.Texts()
	if !o.Hard() {
		m.GracePeriod = o.GracePeriod.String()
	}
	if o.MinReclaim != nil {
		quantity, percentage := o.MinReclaim.Texts()
		if m.MinReclaim = quantity; o.MinReclaim.IsPercentage {
			m.MinReclaim = percentage + "x"
		}
	}
	return m
}

func rankedPods(c *choose.Choice, s eviction.Signal) []RankedPod {
	rows := make(map[string]*pods.Pod, len(c.Candidates))
	for i := range c.Candidates {
		rows[c.Candidates[i].Row.UID] = &c.Candidates[i]
	}
	out := make([]RankedPod, len(c.Order))
	for i, r := range c.Order {
		pod, m := rows[r.UID], c.Measured[r.UID]
		candidate := eviction.Candidate{Pod: pod.Row}
		out[i] = RankedPod{
			UID: r.UID, Pod: pod.String(), Priority: pod.Row.Priority, State: measurementName(m.State),
			Usage: m.UsageFor(s), Request: rank.Request(&candidate, s), Reason: r.Reason,
		}
		if less := rank.Subtracted(&candidate, s); less != out[i].Request {
			out[i].LessBytes = less
		}
	}
	return out
}

func measurementName(s eviction.MeasurementState) string {
	switch s {
	case eviction.Measured:
		return "measured"
	case eviction.NoStats:
		return "no stats"
	default:
		return "unknown"
	}
}
