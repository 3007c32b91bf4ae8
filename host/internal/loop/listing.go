package loop

import (
	"context"

	"github.com/evictd/evictd/host/internal/pods"
)

// A listing of the pods runs while the node is observed. A wake mostly means
// that a pod must go, and the runtime takes longer to answer than anything else
// before the decision.
type listing struct {
	cancel   context.CancelFunc
	done     chan struct{}
	snapshot pods.Snapshot
	err      error
}

func (l *Loop) list(ctx context.Context) *listing {
	ctx, cancel := context.WithTimeout(ctx, listDeadline)
	p := &listing{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.snapshot, p.err = l.Pods.Active(ctx)
	}()
	return p
}

// result waits for the listing.
func (p *listing) result() (pods.Snapshot, error) {
	<-p.done
	return p.snapshot, p.err
}

// drop ends a listing, needed or not. The zero pointer is none.
func (p *listing) drop() {
	if p == nil {
		return
	}
	p.cancel()
	<-p.done
}
