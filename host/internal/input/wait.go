package input

import (
	"errors"
	"sync"
	"time"
)

// readTimeout is how long ReadFileSoon waits.
const readTimeout = 10 * time.Second

// ErrHangs is that of an operation that has not ended in time, or was not begun
// because a former one of its name has not ended.
var ErrHangs = errors.New("the filesystem does not answer")

// Operations are what is being done to files, which may never end, by name. The
// zero Operations are none. They are safe for concurrent use.
type Operations struct {
	mu   sync.Mutex
	open map[string]bool
}

// Wait runs f and waits for it until late is closed. Then it is left behind, and no
// other of its name begins before it has ended.
func Wait[T any](late <-chan struct{}, o *Operations, name string, f func() (T, error)) (T, error) {
	if !o.begin(name) {
		return *new(T), ErrHangs
	}
	answered := start(func() (T, error) {
		defer o.end(name)
		return f()
	})
	select {
	case a := <-answered:
		return a.value, a.err
	case <-late:
		return *new(T), ErrHangs
	}
}

func (o *Operations) begin(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[name] {
		return false
	}
	if o.open == nil {
		o.open = map[string]bool{}
	}
	o.open[name] = true
	return true
}

func (o *Operations) end(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, name)
}

// ReadFileSoon is ReadFile for a file that is read once, by somebody who has no
// former content to go on with. It waits ten seconds at most.
func ReadFileSoon(path string, maxBytes int64) ([]byte, error) {
	late := time.NewTimer(readTimeout)
	defer late.Stop()
	select {
	case a := <-start(func() ([]byte, error) { return ReadFile(path, maxBytes) }):
		return a.value, a.err
	case <-late.C:
		return nil, ErrHangs
	}
}

type answer[T any] struct {
	value T
	err   error
}

// start runs f in a goroutine that ends with f, whether or not somebody still
// waits.
func start[T any](f func() (T, error)) <-chan answer[T] {
	answered := make(chan answer[T], 1)
	go func() {
		value, err := f()
		answered <- answer[T]{value, err}
	}()
	return answered
}
