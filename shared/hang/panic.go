package hang

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// A Panic is one that was recovered, with the stack of where it was.
type Panic struct {
	Value any
	Stack []byte
}

// Error implements error, for the end of a process that recovers no panic.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n%s", p.Value, p.Stack) }

// Catch returns the panic of call, nil if it returned.
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

// A Group is a sync.WaitGroup for functions of a call that share the process with others: the first
// panic of one of them is that of the caller, where it can be recovered.
type Group struct {
	all   sync.WaitGroup
	first atomic.Pointer[Panic]
}

// Go calls f in a goroutine of its own.
func (g *Group) Go(f func()) {
	g.all.Go(func() {
		if p := Catch(f); p != nil {
			g.first.CompareAndSwap(nil, p)
		}
	})
}

// Wait returns when all functions have, and panics if one of them has.
func (g *Group) Wait() {
	g.all.Wait()
	if p := g.first.Load(); p != nil {
		panic(p)
	}
}
