package kubernetes

import (
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
)

// A judge reassesses evictions that are known only from the API server, like those in the journal.
// It belongs to one goroutine.
type judge struct {
	short func(resource string) (known, is bool)
	log   *slog.Logger
	// leftAlone holds pods whose eviction is no longer needed, with its time.
	leftAlone map[types.UID]time.Time
}

// holds reports whether a former eviction of p is still needed. It asks again until that is known.
// The grace period is not known.
func (j judge) holds(p *v1.Pod, former victim.Kill) bool {
	if at, alone := j.leftAlone[p.UID]; alone && at.Equal(former.EvictedAt) {
		return false
	}
	i := policy.Intent{Overdue: time.Since(former.EvictedAt), There: true, Pod: p}
	i.Looked, i.Short = j.short(policy.Starved(former.Message))
	verdict, reason := policy.JudgeIntent(i)
	if verdict == policy.DropKill {
		j.leftAlone[p.UID] = former.EvictedAt
		j.log.Warn("evicted pod is back and is left alone", "pod", p.Namespace+"/"+p.Name, "uid", p.UID, "evictedAt", former.EvictedAt, "reason", reason)
	}
	return verdict == policy.FinishKill
}
