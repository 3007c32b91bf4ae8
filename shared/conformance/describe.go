package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

var describeGroup = group{name: DescribeGroup, rpc: "Describe", opens: (*run).open, checks: append([]check{
	{
		name: "describe", input: `host version "` + hostVersion + `"`, gate: true,
		expect: fmt.Sprintf("within %s a name, capabilities and signals that keep the contract", describeTime), run: described,
	},
	{
		name: "describe-again", input: "the same request three times",
		expect: "the same answer", run: describedAgain,
	},
	{
		name: "describe-older-host", input: "an empty message: a host without version and features",
		expect: "the same answer, or a refusal with a text", run: describedToOlder,
	},
	{
		name: "describe-newer-host", input: "features and fields that do not exist yet",
		expect: "the same answer", run: describedToNewer,
	},
	{
		name: "absent-calls", rpc: "(all)", input: "empty messages to the calls that it does not offer",
		expect: "UNIMPLEMENTED", run: absentCalls,
	},
}, configureChecks...)}

func described(ctx context.Context, t *target) error {
	var reply []byte
	err := t.run.options.within(ctx, describeTime, func(ctx context.Context) (err error) {
		reply, err = t.call(ctx, "Describe", message{}.text(1, hostVersion))
		return err
	})
	if err != nil {
		return err
	}
	got, err := fields(reply)
	if err != nil {
		return err
	}
	for _, f := range got {
		spec, _ := fields(f.bytes) // decoded by Describe
		switch {
		case f.num == 3 && f.unspecified():
			return errors.New("capabilities has CAPABILITY_UNSPECIFIED, which is never sent")
		case f.num == 6 && slices.ContainsFunc(spec, func(f field) bool { return f.num == 2 && f.unspecified() }):
			return errors.New("a signal's capabilities have CAPABILITY_UNSPECIFIED, which is never sent")
		}
	}
	return t.describe(ctx)
}

// unspecified reports whether a list of enumerated values, packed or one by one, has 0.
func (f field) unspecified() bool {
	return f.bytes == nil && f.value == 0 || bytes.IndexByte(f.bytes, 0) >= 0
}

func describedAgain(ctx context.Context, t *target) error {
	first := t.plugin
	for range 3 {
		if err := t.describe(ctx); err != nil {
			return err
		}
		if err := sameDescription(&first, &t.plugin); err != nil {
			return err
		}
	}
	return nil
}

// sameDescription compares all that is not a call.
func sameDescription(a, b *eviction.Plugin) error {
	was, is := *a, *b
	for _, p := range []*eviction.Plugin{&was, &is} {
		p.Configurer, p.Observer, p.Measurer, p.Watcher, p.Ranker, p.Reclaimer = nil, nil, nil, nil, nil, nil
	}
	if a.Capabilities() != b.Capabilities() || (a.Configurer == nil) != (b.Configurer == nil) || !reflect.DeepEqual(was, is) {
		return fmt.Errorf("first %+v, then %+v", was, is)
	}
	return nil
}

func describedToOlder(ctx context.Context, t *target) error {
	was := t.plugin
	return t.run.options.within(ctx, describeTime, func(ctx context.Context) error {
		is, err := t.client.Describe(ctx, eviction.Host{})
		if err != nil {
			if err := refused(err); err != nil {
				return err
			}
			return noted(err.Error())
		}
		return sameDescription(&was, &is)
	})
}

func describedToNewer(ctx context.Context, t *target) error {
	was, err := t.call(ctx, "Describe", message{}.text(1, hostVersion))
	if err != nil {
		return err
	}
	is, err := t.call(ctx, "Describe", message{}.text(1, hostVersion).text(2, "conformance.example/feature").newer())
	if err != nil {
		return err
	}
	if !bytes.Equal(was, is) {
		return fmt.Errorf("first %q, then %q", was, is)
	}
	return nil
}

// absentCalls makes the calls that the plugin says it does not have.
func absentCalls(ctx context.Context, t *target) error {
	var bad []error
	for _, c := range rpcs {
		if c.offered(&t.plugin) || t.destructive(c) {
			continue
		}
		err := t.run.options.within(ctx, c.limit, func(ctx context.Context) error { return c.call(ctx, t, nil) })
		switch {
		case err == nil:
			bad = append(bad, fmt.Errorf("%s: answered", c.name))
		case !errors.Is(err, eviction.ErrUnsupported):
			bad = append(bad, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(bad...)
}
