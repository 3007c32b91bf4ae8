package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A lane is checks that run one after the other on a process of their own, so
// that a plugin that crashes or leaks does so where it can be seen.
type lane struct {
	name   string
	checks []check
}

// A track is a lane under way.
type track struct {
	lane
	options *Options
	open    func(context.Context) (*subject, error)
	subject *subject
	// known is the latest subject of the plugin, nil at first: what it offers holds,
	// also when it is gone.
	known *subject

	results []Check
	growth  []growth
	printed []string
	// blocked is why the rest says nothing.
	blocked string
}

// run makes all checks of the lane. It leaves the subject open.
func (t *track) run(ctx context.Context) {
	for i := range t.checks {
		c := &t.checks[i]
		result := Check{Name: c.name, RPC: c.rpc, Input: c.input, Expected: c.expect}
		begin := time.Now()
		result.end(t.one(ctx, c))
		result.Took = time.Since(begin)
		if c.gate && result.Result == Failed {
			t.blocked = "not run after " + c.name + " failed"
		}
		t.results = append(t.results, result)
	}
}

func (t *track) one(ctx context.Context, c *check) (Result, string) {
	switch {
	case t.options.skips(c.name):
		return Skipped, "left out by option"
	case t.blocked != "":
		return Skipped, t.blocked
	case ctx.Err() != nil:
		t.blocked = fmt.Sprintf("NOT CHECKED: %v", context.Cause(ctx))
		return Failed, t.blocked
	}
	if why := c.missing(t.known); t.known != nil && why != "" {
		return notOffered, why
	}
	if t.subject == nil {
		s, err := t.open(ctx)
		if err != nil {
			t.blocked = "not run after " + c.name + " failed"
			return Failed, err.Error()
		}
		t.subject, t.known = s, s
	}
	if why := c.missing(t.subject); why != "" {
		return notOffered, why
	}
	err := t.try(ctx, c)
	if _, again := errors.AsType[slow](err); again && ctx.Err() == nil && t.subject.crash(err) == "" {
		err = t.try(ctx, c)
	}
	if end := t.subject.crash(err); end != "" {
		t.close(ctx)
		return Failed, strings.TrimPrefix(fmt.Sprintf("%v; %s", err, end), "<nil>; ")
	}
	if s := t.subject; s.proc != nil && (s.before.descriptors == 0 || c.warms) {
		s.before = s.proc.usage()
	}
	if why, ok := errors.AsType[cannot](err); ok {
		t.blocked = "NOT CHECKED: it refuses " + c.name + " on this machine"
		return Note, string(why)
	}
	if _, hangs := errors.AsType[slow](err); hangs {
		t.drop() // What hangs may hang for ever, and the next check has nothing to do with it.
	}
	return verdict(err)
}

// try makes a check within its limit.
func (t *track) try(ctx context.Context, c *check) error {
	limit := c.limit
	if limit == 0 {
		limit = checkTime
	}
	return t.options.within(ctx, limit, func(ctx context.Context) error { return c.run(ctx, t.subject) })
}

func verdict(err error) (Result, string) {
	if err == nil {
		return Passed, ""
	}
	if n, ok := errors.AsType[notApplicable](err); ok {
		return notOffered, string(n)
	}
	if n, ok := errors.AsType[noted](err); ok {
		return Note, string(n)
	}
	return Failed, err.Error()
}

// close ends the subject and keeps what it leaves to look at.
func (t *track) close(ctx context.Context) {
	if t.subject == nil {
		return
	}
	if g, ok := t.subject.grown(ctx, t.name); ok {
		t.growth = append(t.growth, g)
	}
	t.drop()
}

// drop is close of a subject that does not answer any more.
func (t *track) drop() {
	s := t.subject
	t.subject = nil
	s.end()
	if s.proc != nil {
		t.printed = append(t.printed, s.proc.printed()...)
	}
}
