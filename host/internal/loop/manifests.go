package loop

import (
	"context"
	"slices"

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
	l.podsNoted = true
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

// readManifests tells of broken manifests before a pod has to go, beside the loop:
// there may be many, on a slow disk.
func (l *Loop) readManifests(ctx context.Context) {
	if l.Manifests == nil {
		return
	}
	l.beside(ctx, func() func() {
		problems := l.Manifests()
		return func() {
			if l.podsNoted {
				return // A listing was faster and knows more.
			}
			next := *l.snapshot.Load()
			l.noteProblems(&next, problems)
			l.snapshot.Store(&next)
		}
	})
}
