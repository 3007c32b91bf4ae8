package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

// givenUp is the time after which a decision is not awaited any longer.
const givenUp = 28 * time.Second

// A finding is what came of a cell.
type finding struct {
	took  time.Duration
	named bool   // the log names the input
	wrong string // what failed, "" if nothing did
}

// run takes a world through c.
func (c *inputCell) run(t *testing.T) (f finding) {
	w := c.world(t)
	d, before := c.begin(w)
	struck := len(w.calls())
	w.pressure(map[string]string{"memory.available": "memory", "pid.available": "pid", "nodefs.available": "disk", localLimits: "disk"}[c.signal])
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), givenUp)
	defer cancel()
	r, err := d.Process.Await(ctx, func(r evictd.Record) bool { return r.Msg == "evicting pod" })
	f.took = time.Since(began)
	f.named = c.named(d.LogText()[before:])
	switch victim := strings.TrimPrefix(r.String("pod"), "default/"); {
	case err != nil:
		f.wrong = "no decision"
	case !slices.Contains(c.victims, victim):
		f.wrong = fmt.Sprintf("victim %s, want %s", victim, strings.Join(c.victims, " or "))
	case f.took > c.bound+inputSlack:
		f.wrong = "too late"
	case !w.ends():
		f.wrong = "no container of the victim ends"
	case len(d.Records("evicting pod")) != 1:
		f.wrong = "a second decision"
	case !w.runtime.Running("uid-"+shield) || !w.runtime.Running("uid-"+stranger):
		f.wrong = "a pod is gone that must not go"
	case c.input.methods != nil && !c.early() && c.outcome == evicted && len(w.calls()) == struck:
		f.wrong = "the fault has not struck, the cell proves nothing"
	case c.asksOnce() && w.callsLater() > struck+mostCalls:
		f.wrong = fmt.Sprintf("%d calls, want one under way and a refusal remembered", len(w.calls())-struck)
	}
	if f.wrong != "" {
		t.Errorf("%s after %.1f s, at most %.0f s", f.wrong, f.took.Seconds(), c.bound.Seconds())
	}
	return f
}

// mostCalls bounds the calls of a list that does not come: one that was under way, one more, and that of the first
// inspection of the node, which may begin after the fault.
const mostCalls = 3

// callsLater returns the calls that the fault affects until evictd has looked several times for the
// end of the victim.
func (w *inputWorld) callsLater() int {
	time.Sleep(4 * time.Second)
	return len(w.calls())
}

// asksOnce reports whether the host alone asks for the input, and gets no answer.
func (c *inputCell) asksOnce() bool {
	return c.signal == "memory.available" && slices.Contains([]string{"pod sandboxes", "containers"}, c.input.name) && slices.Contains([]string{slow20, hangs, tooLarge}, c.fault)
}

// early reports whether the input fails before evictd starts.
func (c *inputCell) early() bool { return c.fault == fromStart || c.input.atStart }

// begin starts evictd and makes the input fail. It also returns the length of the log before that.
func (c *inputCell) begin(w *inputWorld) (d *daemon.Daemon, logged int) {
	if c.early() {
		w.turn()
		c.input.fail(w)
	}
	d = daemon.Start(w.t, w.config)
	d.AwaitReady()
	if !c.early() {
		w.calm(d)
		logged = len(d.LogText())
		w.turn()
		c.input.fail(w)
	}
	return d, logged
}

// named reports whether a warning, an error or the decision names the input.
func (c *inputCell) named(log string) bool {
	for line := range strings.Lines(log) {
		grave := strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, `"msg":"evicting pod"`)
		if grave && (strings.Contains(line, c.input.name) || strings.Contains(line, "container runtime") || c.input.name == "runtime" && strings.Contains(line, `"name":"containers"`)) {
			return true
		}
	}
	return false
}
