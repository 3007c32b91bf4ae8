package loop

import (
	"maps"
	"slices"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// definitions are what plugins say that their own signals are. They are replaced
// and never changed: streams of wakes read them beside the loop.
type definitions map[eviction.Signal]eviction.Definition

// define puts in force what the plugins of roster say that configured own signals
// are. What a plugin has said stays while that plugin is down. Thresholds of a
// signal that no plugin brings are out of force.
func (l *Loop) define(roster Roster) {
	former := *l.definitions.Load()
	var now definitions
	for _, t := range l.Settings.Thresholds {
		if _, builtin := eviction.Builtin(t.Signal); builtin {
			continue
		}
		d, ok := roster.Definition(t.Signal)
		if !ok && roster.Awaited(t.Signal) != nil {
			d, ok = former[t.Signal]
		}
		if ok {
			if now == nil {
				now = definitions{}
			}
			now[t.Signal] = d
		}
	}
	if maps.Equal(former, now) {
		return
	}
	l.noteDefinitions(former, now)
	l.definitions.Store(&now)
	l.Settings.Thresholds = policy.Define(l.Settings.Thresholds, now)
	l.filesystems.inForce = policy.Define(l.filesystems.inForce, now)
	for s, d := range former {
		if now[s] != d { // What was counted in its unit means nothing any more.
			l.lastUsage.forget(s)
			l.schedule.Forget(d.Condition)
		}
	}
}

// noteDefinitions logs which own signals came, went or are something else now.
func (l *Loop) noteDefinitions(former, now definitions) {
	for _, s := range slices.Sorted(maps.Keys(now)) {
		d, was := now[s], former[s]
		attrs := []any{"signal", s, "unit", d.Unit, "format", d.Format, "resource", d.Resource, "condition", d.Condition}
		switch {
		case was == eviction.Definition{}:
			l.Log.Info("own signal is there, its thresholds are in force", attrs...)
		case was != d:
			l.Log.Warn("own signal is defined anew, its thresholds begin anew and its former condition ends",
				append(attrs, "formerUnit", was.Unit, "formerFormat", was.Format, "formerResource", was.Resource, "formerCondition", was.Condition)...)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(former)) {
		if _, stays := now[s]; !stays {
			l.Log.Info("own signal is gone, its thresholds have no effect", "signal", s, "condition", former[s].Condition)
		}
	}
}

// familyOf is the family of what t is about: its node condition. It is empty as
// long as no plugin brings t's signal.
func familyOf(t policy.Threshold) family { return t.Definition().Condition }

// builtinFamily is that of a signal of the kubelet, empty for others.
func builtinFamily(s eviction.Signal) family {
	d, _ := eviction.Builtin(s)
	return d.Condition
}

// family is that of any signal. It may be called from anywhere.
func (l *Loop) family(s eviction.Signal) family {
	if d, ok := eviction.Builtin(s); ok {
		return d.Condition
	}
	return (*l.definitions.Load())[s].Condition
}
