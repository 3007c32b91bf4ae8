package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/lifecycle"
)

// A runner runs the checks of one group.
type runner struct {
	check.Group
	run    *run
	target *check.Target
	// before is the usage of the target after it has warmed up, zero until then.
	before check.Usage
	// known is the latest target of the plugin, nil at first. Its description is valid even
	// after its process has ended.
	known *check.Target

	results   []Check
	leftovers lifecycle.Leftovers
	// blocked says why the remaining checks are skipped, "" if they are not.
	blocked string
}

func (r *runner) all(ctx context.Context) {
	for i := range r.Checks {
		c := &r.Checks[i]
		result := Check{Name: c.Name, RPC: cmp.Or(c.RPC, r.RPC), Input: cmp.Or(c.Input, r.Input), Expected: c.Expect}
		begin := time.Now()
		result.end(r.one(ctx, c))
		result.Took = time.Since(begin)
		if c.Gate && result.Result == Failed {
			r.blocked = "not run after " + c.Name + " failed"
		}
		r.results = append(r.results, result)
	}
	r.close(ctx)
}

func (r *runner) one(ctx context.Context, c *check.Check) (Result, string) {
	switch {
	case slices.Contains(r.run.options.Skip, c.Name):
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
		t, err := r.open(ctx, r.Before)
		if err != nil {
			r.blocked = "not run after " + c.Name + " failed"
			return Failed, err.Error()
		}
		r.target, r.known, r.before = t, t, check.Usage{}
	}
	if why := r.missing(c, r.target); why != "" {
		return notOffered, why
	}
	try := func() error {
		return r.run.setup.Within(ctx, cmp.Or(c.Limit, check.Time), func(ctx context.Context) error { return c.Run(ctx, r.target) })
	}
	err := try()
	if _, again := errors.AsType[check.Slow](err); again && ctx.Err() == nil && r.target.Crash(err) == "" {
		err = try()
	}
	if end := r.target.Crash(err); end != "" {
		r.close(ctx)
		return Failed, strings.TrimPrefix(fmt.Sprintf("%v; %s", err, end), "<nil>; ")
	}
	if r.before.Descriptors == 0 || c.Warms {
		r.before = r.target.Usage()
	}
	if why, ok := errors.AsType[check.Cannot](err); ok {
		r.blocked = "NOT CHECKED: it refuses " + c.Name + " on this machine"
		return Note, string(why)
	}
	if _, hangs := errors.AsType[check.Slow](err); hangs {
		r.drop() // The call may hang for ever and must not affect the next check.
	}
	return verdict(err)
}

// open makes a configured target and calls before; if that crashes it, another target without it.
func (r *runner) open(ctx context.Context, before func(context.Context, *check.Target) error) (*check.Target, error) {
	t, err := r.run.connect(ctx)
	if err != nil || r.Unconfigured {
		return t, err
	}
	if err := t.Configure(ctx); err != nil {
		t.End()
		return nil, err
	}
	if before != nil && t.Crash(before(ctx, t)) != "" {
		t.End()
		return r.open(ctx, nil)
	}
	return t, nil
}

// missing says why a check does not apply to a plugin, "" if it does or the plugin is not known yet.
func (r *runner) missing(c *check.Check, t *check.Target) string {
	if t == nil {
		return ""
	}
	if c.Configurable && t.Plugin.Configurer == nil {
		return "it takes no configuration"
	}
	for one := range (c.Needs | r.Needs).Each() {
		if len(t.Offering(one)) == 0 {
			return "it does not offer to " + one.String()
		}
	}
	if r.Unless == nil {
		return ""
	}
	return r.Unless(t)
}

func verdict(err error) (Result, string) {
	if err == nil {
		return Passed, ""
	}
	if n, ok := errors.AsType[check.NotApplicable](err); ok {
		return notOffered, string(n)
	}
	if n, ok := errors.AsType[check.Noted](err); ok {
		return Note, string(n)
	}
	return Failed, err.Error()
}

// close ends the target and keeps its leftovers for later checks.
func (r *runner) close(ctx context.Context) {
	if r.target == nil {
		return
	}
	if r.before.Descriptors != 0 && r.target.Ended(0) == "" {
		r.leftovers.Growth = append(r.leftovers.Growth, lifecycle.Grown(ctx, r.Name, r.target, r.before))
	}
	r.drop()
}

// drop is like close, but makes no calls: the target may not answer any more.
func (r *runner) drop() {
	r.target.End()
	r.leftovers.Printed = append(r.leftovers.Printed, r.target.Printed()...)
	r.target = nil
}
