package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A group is checks that run one after the other on a process of their own, so
// that a plugin that crashes or leaks does so where it can be seen.
type group struct {
	name string
	// rpc and needs are those of its checks that have none of their own.
	rpc   string
	needs eviction.Capability
	// unless says why none of the checks applies to a target, nil for none.
	unless func(*target) error
	// opens makes the target, (*run).openConfigured when nil.
	opens  func(*run, context.Context) (*target, error)
	checks []check
}

// A runner is a group under way.
type runner struct {
	group
	run    *run
	target *target
	// known is the latest target of the plugin, nil at first: what it offers holds,
	// also when it is gone.
	known *target

	results []Check
	growth  []growth
	printed []string
	// blocked says why the remaining checks cannot say anything, "" if they can.
	blocked string
}

// all makes all checks of the group.
func (r *runner) all(ctx context.Context) {
	for i := range r.checks {
		c := &r.checks[i]
		result := Check{Name: c.name, RPC: cmp.Or(c.rpc, r.rpc), Input: c.input, Expected: c.expect}
		begin := time.Now()
		result.end(r.one(ctx, c))
		result.Took = time.Since(begin)
		if c.gate && result.Result == Failed {
			r.blocked = "not run after " + c.name + " failed"
		}
		r.results = append(r.results, result)
	}
	r.close(ctx)
}

func (r *runner) one(ctx context.Context, c *check) (Result, string) {
	switch {
	case r.run.options.skips(c.name):
		return Skipped, "left out by option"
	case r.blocked != "":
		return Skipped, r.blocked
	case ctx.Err() != nil:
		r.blocked = fmt.Sprintf("NOT CHECKED: %v", context.Cause(ctx))
		return Failed, r.blocked
	}
	if why := r.missing(c, r.known); why != "" {
		return notOffered, why
	}
	if r.target == nil {
		t, err := r.open(ctx)
		if err != nil {
			r.blocked = "not run after " + c.name + " failed"
			return Failed, err.Error()
		}
		r.target, r.known = t, t
	}
	if why := r.missing(c, r.target); why != "" {
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
	if t := r.target; t.proc != nil && (t.before.descriptors == 0 || c.warms) {
		t.before = t.proc.usage()
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

func (r *runner) open(ctx context.Context) (*target, error) {
	if r.opens != nil {
		return r.opens(r.run, ctx)
	}
	return r.run.openConfigured(ctx)
}

// missing says why a check does not apply to a plugin, "" if it does or nothing is
// known of it.
func (r *runner) missing(c *check, t *target) string {
	if t == nil {
		return ""
	}
	if c.configurable && t.plugin.Configurer == nil {
		return "it takes no configuration"
	}
	for one := range (c.needs | r.needs).Each() {
		if len(t.offering(one)) == 0 {
			return "it does not offer to " + one.String()
		}
	}
	if r.unless != nil {
		if err := r.unless(t); err != nil {
			return err.Error()
		}
	}
	return ""
}

// try makes a check within its limit.
func (r *runner) try(ctx context.Context, c *check) error {
	return r.run.options.within(ctx, cmp.Or(c.limit, checkTime), func(ctx context.Context) error { return c.run(ctx, r.target) })
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
	t := r.target
	r.target = nil
	t.end()
	if t.proc != nil {
		r.printed = append(r.printed, t.proc.printed()...)
	}
}
