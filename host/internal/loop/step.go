package loop

import (
	"context"
	"errors"
	"time"

	"github.com/evictd/evictd/host/internal/wake"
)

// errEnded is what a pass is asked for in vain when the loop has ended.
var errEnded = errors.New("the eviction manager has ended")

// What the kubelet's wait for clean-up takes (podCleanupTimeout,
// podCleanupPollFreq).
const (
	cleanupPoll = time.Second
	cleanupMost = 30 * time.Second
)

// request asks the loop for one pass.
type request struct {
	ctx   context.Context //nolint:containedctx // of the caller, who waits
	reply chan<- result
}

type result struct {
	outcome Outcome
	err     error
}

// Synchronize makes one full pass and returns when all that it decided on was
// done, reclaim and kills too: the kubelet's synchronize. The error is why the
// pass concluded nothing.
func (l *Loop) Synchronize(ctx context.Context) (Outcome, error) {
	if err := l.Reentered(); err != nil {
		return Outcome{}, err
	}
	reply := make(chan result, 1)
	select {
	case l.requests <- request{ctx, reply}:
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	case <-l.ended:
		return Outcome{}, errEnded
	}
	r := <-reply
	return r.outcome, r.err
}

func (l *Loop) serve(r request) {
	p := l.newPass(wake.Scope{Full: true})
	p.waits = true
	defer p.end()
	err := l.run(r.ctx, p)
	l.finish(p)
	r.reply <- result{l.outcome(p), err}
}

// AwaitCleanup waits until nothing is left of the pods that o evicted, as long
// as the kubelet would: it looks each second, and gives up after half a minute.
func (l *Loop) AwaitCleanup(ctx context.Context, o Outcome) error {
	for waited := cleanupPoll; ; waited += cleanupPoll {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.After(cleanupPoll):
		}
		if l.allCleanedUp(ctx, o) || waited >= cleanupMost {
			return nil
		}
	}
}

func (l *Loop) allCleanedUp(ctx context.Context, o Outcome) bool {
	for _, e := range o.Evicted {
		finished, err := l.Killer.Finished(ctx, e)
		if err != nil || !finished {
			return false
		}
	}
	return true
}
