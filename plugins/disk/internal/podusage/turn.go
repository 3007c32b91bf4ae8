package podusage

import (
	"context"
	"errors"
	"sync"
	"time"
)

// patience is how long a filesystem is waited for that does not answer. It is a
// few times what a healthy one is given to do at a time.
const patience = time.Second

var (
	// errLate: there was no time to look.
	errLate = errors.New("not looked at in time")
	// errHangs: a filesystem keeps its caller waiting, as one whose server is away.
	errHangs = errors.New("its filesystem does not answer")
)

// patiently runs f in a goroutine of its own and returns what it returns. When
// patience is over or stop ends first, f is left behind: nothing can end a system
// call that hangs. It goes on alone then, and late is called at its end.
func patiently[T any](stop context.Context, f func() T, late func()) (T, error) {
	var none T
	result, left := make(chan T), make(chan struct{})
	go func() {
		r := f()
		select {
		case result <- r:
		case <-left:
			late()
		}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-result:
		return r, nil
	case <-timer.C:
		close(left)
		return none, errHangs
	case <-stop.Done():
		close(left)
		return none, errLate
	}
}

// A turn is had by one goroutine at a time.
type turn struct {
	token chan struct{}
	mu    sync.Mutex
	since time.Time // zero while nobody has it
}

func newTurn() *turn { return &turn{token: make(chan struct{}, 1)} }

// take waits for the turn, but not for one that somebody has who hangs.
func (t *turn) take(ctx context.Context) error {
	if t.try() {
		return nil
	}
	if t.stuck() {
		return errHangs
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case t.token <- struct{}{}:
		t.set(time.Now())
		return nil
	case <-timer.C:
		return errHangs
	case <-ctx.Done():
		return errLate
	}
}

// try takes the turn if nobody has it.
func (t *turn) try() bool {
	select {
	case t.token <- struct{}{}:
		t.set(time.Now())
		return true
	default:
		return false
	}
}

func (t *turn) give() {
	t.set(time.Time{})
	<-t.token
}

// stuck reports whether somebody has had the turn for longer than anybody needs it.
func (t *turn) stuck() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.since.IsZero() && time.Since(t.since) >= patience
}

func (t *turn) set(since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since = since
}

// hanging counts what was left behind, by pod, so that it is not tried again while
// it hangs.
type hanging struct {
	mu   sync.Mutex
	pods map[string]int
}

func newHanging() *hanging { return &hanging{pods: make(map[string]int)} }

func (h *hanging) has(uid string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pods[uid] > 0
}

func (h *hanging) add(uid string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pods[uid] += n; h.pods[uid] == 0 {
		delete(h.pods, uid)
	}
}

// guard does f for a pod, patiently.
func guard[T any](stop context.Context, h *hanging, uid string, f func() T) (T, error) {
	var none T
	switch {
	case stop.Err() != nil:
		return none, errLate
	case h.has(uid):
		return none, errHangs
	}
	r, err := patiently(stop, f, func() { h.add(uid, -1) })
	if err != nil {
		h.add(uid, 1)
	}
	return r, err
}
