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

// list begins the listing of p, if it has not begun.
func (l *Loop) list(ctx context.Context, p *pass) {
	if p.listing != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	started := &listing{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(started.done)
		started.snapshot, started.err = l.listNow(ctx)
	}()
	p.listing = started
}

// listNow lists the pods, for as long as a pass may wait for that.
func (l *Loop) listNow(ctx context.Context) (pods.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, max(listDeadline, l.Patience))
	defer cancel()
	return l.Pods.Active(ctx)
}

// active returns the active pods as p has listed them.
func (l *Loop) active(ctx context.Context, p *pass) (pods.Snapshot, error) {
	l.list(ctx, p)
	return p.listing.result()
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
