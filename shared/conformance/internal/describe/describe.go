// Package describe checks Describe and Configure.
package describe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/eviction"
)

// Group has the checks of Describe and Configure, on which all others depend.
var Group = check.Group{Name: "describe", RPC: "Describe", Unconfigured: true, Checks: append([]check.Check{
	{
		Name: "describe", Input: `host version "` + check.HostVersion + `"`, Gate: true,
		Expect: fmt.Sprintf("within %s a name, capabilities and signals that keep the contract", eviction.DescribeDeadline), Run: described,
	},
	{Name: "describe-again", Input: "the same request three times", Expect: "the same answer", Run: describedAgain},
	{Name: "describe-older-host", Input: "an empty message: a host without version and features", Expect: "the same answer, or a refusal with a text", Run: describedToOlder},
	{Name: "describe-newer-host", Input: "features and fields that do not exist yet", Expect: "the same answer", Run: describedToNewer},
	{Name: "absent-calls", RPC: "(all)", Input: "empty messages to the calls that it does not offer", Expect: "UNIMPLEMENTED", Run: absentCalls},
}, configureChecks...)}

func described(ctx context.Context, t *check.Target) error {
	reply, err := t.CallWithin(ctx, eviction.DescribeDeadline, "Describe", t.Host())
	if err != nil {
		return err
	}
	got, err := check.Fields(reply)
	if err != nil {
		return err
	}
	for _, f := range got {
		spec, _ := check.Fields(f.Bytes) // decoded by Describe
		switch {
		case f.Num == 3 && unspecified(f):
			return errors.New("capabilities has CAPABILITY_UNSPECIFIED, which is never sent")
		case f.Num == 6 && slices.ContainsFunc(spec, func(f check.Field) bool { return f.Num == 2 && unspecified(f) }):
			return errors.New("a signal's capabilities have CAPABILITY_UNSPECIFIED, which is never sent")
		}
	}
	return t.Describe(ctx)
}

// unspecified reports whether a list of enum values, packed or not, contains 0.
func unspecified(f check.Field) bool {
	return f.Bytes == nil && f.Value == 0 || bytes.IndexByte(f.Bytes, 0) >= 0
}

func describedAgain(ctx context.Context, t *check.Target) error {
	first := t.Plugin
	for range 3 {
		if err := t.Describe(ctx); err != nil {
			return err
		}
		if err := Same(&first, &t.Plugin); err != nil {
			return err
		}
	}
	return nil
}

// Same returns an error unless two descriptions are equal, apart from their calls.
func Same(a, b *eviction.Plugin) error {
	was, is := *a, *b
	for _, p := range []*eviction.Plugin{&was, &is} {
		p.Configurer, p.Observer, p.Measurer, p.Watcher, p.Ranker, p.Reclaimer, p.Meter = nil, nil, nil, nil, nil, nil, nil
	}
	if a.Capabilities() != b.Capabilities() || (a.Configurer == nil) != (b.Configurer == nil) || (a.Meter == nil) != (b.Meter == nil) || !reflect.DeepEqual(was, is) {
		return fmt.Errorf("first %+v, then %+v", was, is)
	}
	return nil
}

func describedToOlder(ctx context.Context, t *check.Target) error {
	was := t.Plugin
	scoped := slices.IndexFunc(was.Signals, func(s eviction.SignalSpec) bool {
		return s.Definition != nil && s.Definition.Candidates == eviction.RankedPods
	})
	return t.Within(ctx, eviction.DescribeDeadline, func(ctx context.Context) error {
		is, err := t.Client.Describe(ctx, eviction.Host{})
		switch {
		case err == nil && was.SignalsFromConfig:
			return fmt.Errorf("answered a host without %s, which does not say the configuration; want a refusal with a text", eviction.FeatureSignalsFromConfig)
		case err == nil && scoped >= 0:
			return fmt.Errorf("%s: answered a host without %s, which evicts pods that the ranking does not name; want a refusal with a text",
				was.Signals[scoped].Signal, eviction.FeatureCandidateScope)
		case err == nil:
			return Same(&was, &is)
		case check.Refused(err) != nil:
			return check.Refused(err)
		case scoped >= 0 || was.SignalsFromConfig:
			return nil
		default:
			return check.Noted(err.Error())
		}
	})
}

func describedToNewer(ctx context.Context, t *check.Target) error {
	was, err := t.Call(ctx, "Describe", t.Host())
	if err != nil {
		return err
	}
	is, err := t.Call(ctx, "Describe", t.Host().Text(2, "conformance.example/feature").Newer())
	if err != nil {
		return err
	}
	if !bytes.Equal(was, is) {
		return fmt.Errorf("first %q, then %q", was, is)
	}
	return nil
}

func absentCalls(ctx context.Context, t *check.Target) error {
	var bad []error
	for _, c := range check.RPCs {
		if c.Offered(&t.Plugin) || c.Forbidden(t) {
			continue
		}
		err := t.Within(ctx, c.Limit, func(ctx context.Context) error { return c.Call(ctx, t, nil) })
		switch {
		case err == nil:
			bad = append(bad, fmt.Errorf("%s: answered", c.Name))
		case !errors.Is(err, eviction.ErrUnsupported):
			bad = append(bad, fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	return errors.Join(bad...)
}
