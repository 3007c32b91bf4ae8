package kubernetes

import (
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/policy"
)

// A judge reassesses evictions that are known only from the API server, like those in the journal.
// It belongs to one goroutine.
type judge struct {
	short func(resource string) (known, is bool)
	log   *slog.Logger
	// leftAlone holds pods whose eviction is no longer needed, with its time.
	leftAlone map[types.UID]string
}

// holds reports whether the eviction of p with this message is still needed. It asks again until
// that is known. The annotation does not contain the grace period.
func (j judge) holds(p *v1.Pod, message string) bool {
	evicted := evictedAt(p)
	at, err := time.Parse(time.RFC3339Nano, evicted)
	if err != nil || j.leftAlone[p.UID] == evicted {
		return false
	}
	i := policy.Intent{Overdue: time.Since(at), There: true, Pod: p}
	i.Looked, i.Short = j.short(policy.Starved(message))
	verdict, reason := policy.JudgeIntent(i)
	if verdict == policy.DropKill {
		j.leftAlone[p.UID] = evicted
		j.log.Warn("evicted pod is back and is left alone", "pod", p.Namespace+"/"+p.Name, "uid", p.UID, "evictedAt", evicted, "reason", reason)
	}
	return verdict == policy.FinishKill
}
