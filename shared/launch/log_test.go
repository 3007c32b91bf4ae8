package launch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The log of a plugin that panicked at its start had the end of the stack only.
func TestTheLogOfACrashBeginsWithItsReason(t *testing.T) {
	stack := []string{"goroutine 1 [running]:", "main.a()", "\tmain.go:1", "main.b()", "\tmain.go:2", "main.c()"}
	var many []string
	for range 200 {
		many = append(many, stack[1:]...)
	}
	for name, c := range map[string]struct{ lines, want []string }{
		"no crash":    {[]string{"a", "b", "c", "d"}, []string{"b", "c", "d"}},
		"a short one": {[]string{"hello", "panic: no config", "goroutine 1 [running]:", "main.a()"}, []string{"panic: no config", "goroutine 1 [running]:", "main.a()"}},
		"a stack that fits": {
			append([]string{"hello", "panic: no config"}, stack[:5]...),
			append([]string{"panic: no config"}, stack[:5]...),
		},
		"more goroutines than lines are kept": {
			append([]string{"hello", "fatal error: all goroutines are asleep - deadlock!"}, append(stack[:1:1], many...)...),
			[]string{"fatal error: all goroutines are asleep - deadlock!", "goroutine 1 [running]:", "main.a()", "\tmain.go:1", "main.b()", "\tmain.go:2", "...", "main.b()", "\tmain.go:2", "main.c()"},
		},
		"Node.js": {
			[]string{"/x.js:1", "throw new Error('no')", "^", "Error: no", "    at a", "    at b", "    at c", "Node.js v18.19.0"},
			[]string{"Error: no", "    at a", "    at b", "    at c", "Node.js v18.19.0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l Log
			l.Add("panic: of a former start")
			mark := l.Mark()
			for _, line := range c.lines {
				l.Add(line)
			}
			if diff := cmp.Diff(c.want, l.Since(mark, 3)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
