package loop

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
)

// notePods shows pods that cannot be evicted for want of a usable manifest.
func (l *Loop) notePods(s pods.Snapshot) {
	next := *l.snapshot.Load()
	next.Unmanaged = nil
	for _, p := range s.Pods {
		if !p.HasManifest {
			next.Unmanaged = append(next.Unmanaged, p.String())
		}
	}
	l.reading.overtaken = true
	l.noteProblems(&next, s.Problems)
	l.snapshot.Store(&next)
}

// noteProblems puts what is wrong with manifests into next, and into the log what
// is new.
func (l *Loop) noteProblems(next *Snapshot, problems []pods.Problem) {
	former := l.snapshot.Load().Problems
	next.Problems = nil
	for _, p := range problems {
		text := p.Error()
		next.Problems = append(next.Problems, text)
		if !slices.Contains(former, text) {
			l.Log.Warn("pod manifest has a problem", "problem", text, "used", p.Used)
		}
	}
	if len(problems) == 0 && len(former) > 0 {
		l.Log.Info("pod manifests have no problem any more")
	}
}

// A manifestReading is what reads the manifests between listings of pods.
type manifestReading struct {
	underWay bool
	next     time.Time
	// overtaken: pods were listed since the reading began.
	overtaken bool
}

// readManifests reads what changed in the manifests since the last time, beside the
// loop: there may be many, on a slow disk. So broken ones are told before a pod has
// to go, and a pod is known by then even if its manifest cannot be read any more.
func (l *Loop) readManifests(ctx context.Context) {
	now := time.Now()
	if l.Manifests == nil || l.reading.underWay || now.Before(l.reading.next) {
		return
	}
	l.reading = manifestReading{underWay: true, next: now.Add(l.Settings.MonitoringInterval)}
	l.beside(ctx, func() func() {
		problems := l.Manifests()
		return func() {
			l.reading.underWay = false
			if l.reading.overtaken {
				return // A listing was faster and knows more.
			}
			next := *l.snapshot.Load()
			l.noteProblems(&next, problems)
			l.snapshot.Store(&next)
		}
	})
}
