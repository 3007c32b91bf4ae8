package loop

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/host/internal/wake"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// embedder is who runs steps that the embedding program stands in for.
	embedder = "embedding program"
	// hardReclaim is what custom steps get in all before a pod goes under a hard
	// threshold.
	hardReclaim = 30 * time.Second
	// mostReclaim is what a step of the embedding program gets, as plugins' do.
	mostReclaim = 10 * time.Minute
)

// A step is a step of node-level reclaim and who runs it.
type step struct {
	name string
	by   *registry.Instance // nil: the embedding program
	// as is the signal that it is listed for.
	as eviction.Signal
}

// A cleaning is node-level reclaim under way for a threshold. The node is looked
// at after each group of steps.
type cleaning struct {
	threshold policy.Threshold
	// before is what was observed, which words an eviction; actionable are the
	// thresholds that the pass could have acted on.
	before     map[eviction.Signal]eviction.Observation
	actionable []policy.Threshold
	groups     [][]step
	pass       uint64
	did        []ReclaimOutcome
	// customUntil is when custom steps must be done, zero for no such time.
	customUntil time.Time
}

// newCleaning returns what can be reclaimed for t before a pod must go, nil if
// nothing.
func (l *Loop) newCleaning(p *pass, t policy.Threshold) *cleaning {
	groups := l.groups(p.roster, t.Signal)
	if len(groups) == 0 {
		return nil
	}
	c := &cleaning{threshold: t, before: p.observed, actionable: p.assessment.Actionable, groups: groups, pass: p.at.Pass}
	if t.Hard() {
		c.customUntil = time.Now().Add(hardReclaim)
	}
	return c
}

// groups are the steps of s in the layout in force, those listed for another name of
// its filesystem too: each step of a custom plugin alone, then those of the built-in
// one together. A step that several plugins have is run by the first of them.
func (l *Loop) groups(roster Roster, s eviction.Signal) [][]step {
	var groups [][]step
	seen := map[string]bool{}
	for _, p := range roster.Serving(l.filesystems.layout, s, eviction.CanReclaim) {
		var builtin []step
		for _, r := range policy.StepsOf(p.Plugin, s, l.filesystems.layout) {
			if seen[r.Name] {
				continue
			}
			seen[r.Name] = true
			st := step{r.Name, p.Instance, r.Signal}
			if _, standsIn := l.Reclaim[r.Name]; standsIn {
				st.by = nil
			}
			if p.Builtin() {
				builtin = append(builtin, st)
			} else {
				groups = append(groups, []step{st})
			}
		}
		if len(builtin) > 0 {
			groups = append(groups, builtin)
		}
	}
	return groups
}

// reclaim frees what can be freed for c's threshold, and evicts a pod if that is
// not enough. A pass that waits does it all; else the steps run beside the loop,
// and meanwhile the family's thresholds are in good hands.
func (l *Loop) reclaim(ctx context.Context, p *pass, c *cleaning) {
	f := familyOf(c.threshold)
	req := l.reclaimRequest(ctx, p, c)
	if p.waits {
		for len(c.groups) > 0 {
			l.runGroup(ctx, c, req)
			if l.reclaimed(ctx, p, c) {
				return
			}
		}
		l.take(ctx, p, c.threshold, c.before, c.actionable)
		return
	}
	l.occupied[f] = true
	l.beside(ctx, func() func() {
		roster := l.Pin() // of the steps' plugins: they are not replaced under way
		defer roster.Release()
		l.runGroup(ctx, c, req)
		return func() {
			delete(l.occupied, f)
			l.afterGroup(ctx, c)
		}
	})
}

// afterGroup goes on in the loop when a group has run beside it. It does not hurry
// the next pass: where nobody can be evicted that would reclaim without a pause.
func (l *Loop) afterGroup(ctx context.Context, c *cleaning) {
	p := l.newPass(wake.Scope{})
	defer p.end()
	switch {
	case !l.inForce(c.threshold): // a reload has done away with it
	case l.reclaimed(ctx, p, c) || ctx.Err() != nil:
	case len(c.groups) > 0:
		l.reclaim(ctx, p, c)
	case !l.mayTake(ctx, p, c.threshold): // for another threshold's victim
	default:
		l.take(ctx, p, c.threshold, c.before, c.actionable)
	}
}

func (l *Loop) inForce(t policy.Threshold) bool {
	return slices.ContainsFunc(l.filesystems.inForce, func(u policy.Threshold) bool { return u.Key() == t.Key() })
}

// reclaimed looks at the node after a group and reports whether every threshold
// that it concerns is satisfied, so that no pod has to go. p measures from here on what is there
// now, unless it is still the pass that began.
func (l *Loop) reclaimed(ctx context.Context, p *pass, c *cleaning) bool {
	concerned := policy.Concerned(c.threshold, l.served(p.roster, l.filesystems.inForce))
	after := eviction.PassView{Pass: p.at.Pass, View: eviction.ViewAfterReclaim}
	l.begin(ctx, after, false)
	if p.at.Pass != c.pass {
		p.at = after
	}
	observed := l.observe(ctx, p.roster, after, l.signals(wake.Scope{Full: true}, concerned), false).signals
	p.did.reclaim = c.did
	p.did.sufficed = policy.Satisfied(concerned, observed)
	if p.did.sufficed {
		l.Log.Info("reclaim was enough, no pod has to go", "signal", c.threshold.Signal, "threshold", c.threshold.Value.String(),
			"available", observed[c.threshold.Signal].Available, "before", c.before[c.threshold.Signal].Available)
	}
	return p.did.sufficed
}

// runGroup runs the first group of c and takes it off. It touches nothing of the
// loop's state.
func (l *Loop) runGroup(ctx context.Context, c *cleaning, req eviction.ReclaimRequest) {
	group := c.groups[0]
	c.groups = c.groups[1:]
	for _, s := range group {
		out := l.runStepInTime(ctx, s, c, req)
		c.did = append(c.did, out)
		level := slog.LevelInfo
		if out.Err != "" {
			level = slog.LevelError
		}
		l.Log.Log(ctx, level, "reclaim step ended", "signal", c.threshold.Signal, "step", out.Step, "by", out.By,
			"bytesFreed", out.BytesFreed, "inodesFreed", out.InodesFreed, "message", out.Message, "error", out.Err)
	}
}

// runStepInTime keeps custom steps from holding up an eviction for long.
func (l *Loop) runStepInTime(ctx context.Context, s step, c *cleaning, req eviction.ReclaimRequest) ReclaimOutcome {
	if s.by != nil && !s.by.Builtin() && !c.customUntil.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.customUntil)
		defer cancel()
	}
	return l.runStep(ctx, s, req)
}

func (l *Loop) runStep(ctx context.Context, s step, req eviction.ReclaimRequest) ReclaimOutcome {
	out := ReclaimOutcome{Step: s.name, By: embedder}
	var err error
	if s.by == nil {
		limited, cancel := context.WithTimeout(ctx, mostReclaim)
		err = l.Reclaim[s.name](limited)
		cancel()
	} else {
		req.Signal, req.Step, out.By = s.as, s.name, s.by.Name
		var freed eviction.Reclaimed
		freed, err = s.by.Plugin.Reclaimer.Reclaim(ctx, req, func(eviction.Reclaimed) {})
		out.BytesFreed, out.InodesFreed, out.Message = freed.Bytes, freed.Inodes, freed.Message
		if err != nil {
			l.Metrics.CallFailed(s.by.Name, "reclaim", err)
		}
	}
	if err != nil {
		out.Err = err.Error()
	}
	return out
}

// reclaimRequest tells the steps which pods there are. Without a list of them
// containers' leavings can still go by other rules.
func (l *Loop) reclaimRequest(ctx context.Context, p *pass, c *cleaning) eviction.ReclaimRequest {
	req := eviction.ReclaimRequest{Pass: c.pass, Signal: c.threshold.Signal}
	if !slices.ContainsFunc(slices.Concat(c.groups...), func(s step) bool { return s.by != nil }) {
		return req // the embedding program knows its pods
	}
	snapshot, err := l.active(ctx, p)
	if err != nil {
		return req
	}
	req.AllSourcesReady = snapshot.Complete
	req.Pods = l.victims.Phases(snapshot)
	return req
}
