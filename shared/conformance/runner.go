package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A group is checks that run one after the other on a process of their own, so
// that a plugin that crashes or leaks does so where it can be seen.
type group struct {
	name   string
	checks []check
}

// A runner is a group under way.
type runner struct {
	group
	options *Options
	open    func(context.Context) (*target, error)
	target  *target
	// known is the latest target of the plugin, nil at first: what it offers holds,
	// also when it is gone.
	known *target

	results []Check
	growth  []growth
	printed []string
	// blocked is why the rest says nothing.
	blocked string
}

// run makes all checks of the group. It leaves the target open.
func (r *runner) run(ctx context.Context) {
	for i := range r.checks {
		c := &r.checks[i]
		result := Check{Name: c.name, RPC: c.rpc, Input: c.input, Expected: c.expect}
		begin := time.Now()
		result.end(r.one(ctx, c))
		result.Took = time.Since(begin)
		if c.gate && result.Result == Failed {
			r.blocked = "not run after " + c.name + " failed"
		}
		r.results = append(r.results, result)
	}
}

func (r *runner) one(ctx context.Context, c *check) (Result, string) {
	switch {
	case r.options.skips(c.name):
		return Skipped, "left out by option"
	case r.blocked != "":
		return Skipped, r.blocked
	case ctx.Err() != nil:
		r.blocked = fmt.Sprintf("NOT CHECKED: %v", context.Cause(ctx))
		return Failed, r.blocked
	}
	if why := c.missing(r.known); r.known != nil && why != "" {
		return notOffered, why
	}
	if r.target == nil {
		s, err := r.open(ctx)
		if err != nil {
			r.blocked = "not run after " + c.name + " failed"
			return Failed, err.Error()
		}
		r.target, r.known = s, s
	}
	if why := c.missing(r.target); why != "" {
		return notOffered, why
	}
	err := r.try(ctx, c)
	if _, again := errors.AsType[slow](err); again && ctx.Err() == nil && r.target.crash(err) == "" {
		err = r.try(ctx, c)
	}
	if end := r.target.crash(err); end != "" {
		r.close(ctx)
		return Failed, strings.TrimPrefix(fmt.Sprintf("%v; %s", err, end), "<nil>; ")
	}
	if s := r.target; s.proc != nil && (s.before.descriptors == 0 || c.warms) {
		s.before = s.proc.usage()
	}
	if why, ok := errors.AsType[cannot](err); ok {
		r.blocked = "NOT CHECKED: it refuses " + c.name + " on this machine"
		return Note, string(why)
	}
	if _, hangs := errors.AsType[slow](err); hangs {
		r.drop() // What hangs may hang for ever, and the next check has nothing to do with it.
	}
	return verdict(err)
}

// try makes a check within its limit.
func (r *runner) try(ctx context.Context, c *check) error {
	limit := c.limit
	if limit == 0 {
		limit = checkTime
	}
	return r.options.within(ctx, limit, func(ctx context.Context) error { return c.run(ctx, r.target) })
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

// close ends the target and keeps what it leaves to look at.
func (r *runner) close(ctx context.Context) {
	if r.target == nil {
		return
	}
	if g, ok := r.target.grown(ctx, r.name); ok {
		r.growth = append(r.growth, g)
	}
	r.drop()
}

// drop is close of a target that does not answer any more.
func (r *runner) drop() {
	s := r.target
	r.target = nil
	s.end()
	if s.proc != nil {
		r.printed = append(r.printed, s.proc.printed()...)
	}
}
