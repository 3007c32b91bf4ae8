package kubernetes

import (
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/policy"
)

// A judge judges evictions that are known from the API server alone, as those in the
// journal are judged. One goroutine uses it.
type judge struct {
	short func(resource string) (known, is bool)
	log   *slog.Logger
	// leftAlone are pods whose eviction holds no more, with its time.
	leftAlone map[types.UID]string
}

// holds reports whether the eviction of p with this message still holds. It is judged again
// as long as it cannot be. The annotation does not say how long its grace was.
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
