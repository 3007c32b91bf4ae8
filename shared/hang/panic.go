package hang

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// A Panic is a recovered panic, with the stack at its origin.
type Panic struct {
	Value any
	Stack []byte
}

// Error implements error; it is shown if a re-raised Panic ends the process.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n%s", p.Value, p.Stack) }

// Catch calls call and returns its panic, nil if it returned.
func Catch(call func()) (caught *Panic) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Panic: // of a Group
			caught = r
		default:
			caught = &Panic{r, debug.Stack()}
		}
	}()
	call()
	return nil
}

// A Group is like sync.WaitGroup, but passes the first panic of its functions on to the caller of
// Wait, who can recover it.
type Group struct {
	all   sync.WaitGroup
	first atomic.Pointer[Panic]
}

// Go calls f in a new goroutine.
func (g *Group) Go(f func()) {
	g.all.Go(func() {
		if p := Catch(f); p != nil {
			g.first.CompareAndSwap(nil, p)
		}
	})
}

// Wait waits for all functions to return. It panics if one of them has panicked.
func (g *Group) Wait() {
	g.all.Wait()
	if p := g.first.Load(); p != nil {
		panic(p)
	}
}
