package describe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/eviction"
)

// strangeField is a field that no configuration has.
const strangeField = "noSuchFieldInAnyConfiguration"

var configureChecks = []check.Check{
	{
		Configurable: true, Name: "configure", Input: "the facts of the node, and the configuration given, if any", Gate: true,
		Expect: fmt.Sprintf("it is accepted within %s", eviction.ConfigureDeadline), Run: configured,
	},
	{Configurable: true, Name: "configure-again", Input: "the same once more, after other calls", Warms: true, Expect: "it is accepted", Run: configuredAgain},
	{
		Configurable: true, Name: "configure-unknown-field", Input: `a config with the field "` + strangeField + `"`,
		Expect: "a refusal that names the field", Run: configuredWithUnknownField,
	},
	{Configurable: true, Name: "configure-not-json", Input: `configs that are no JSON object: {"a":  and  [1]  and  "text"`, Expect: "refusals", Run: configuredWithRubbish},
	{
		Configurable: true, Name: "configure-keeps-former", Input: "calls before and after configs that were refused, with other values in what they have right",
		Expect: "the former configuration is in force: the same signals are observed, the same ranking comes", Run: configuredKeepsFormer,
	},
	{Configurable: true, Name: "configure-newer-host", Input: "node facts and fields that do not exist yet", Expect: "they are ignored, it is accepted", Run: configuredByNewer},
	{
		Configurable: true, Name: "configure-description", RPC: "Describe", Input: "the same request as at first, once it is configured",
		Expect: "the same answer as at first", Run: describedAgain,
	},
	{Configurable: true, Name: "configure-during-calls", Input: "the same configuration 10 times while other calls run", Expect: "all of them are answered", Run: configuredDuringCalls},
}

func configured(ctx context.Context, t *check.Target) error {
	err := t.Configure(ctx)
	fields, named := errors.AsType[eviction.FieldErrors](err)
	if named && t.Locate != nil && len(t.Config) > 0 {
		return fmt.Errorf("refused: %w", t.Locate(fields))
	}
	if errors.Is(err, eviction.ErrRefused) && len(t.Config) == 0 {
		return fmt.Errorf("%w (without any config; if it needs one, give it: --config FILE)", err)
	}
	return err
}

func configuredAgain(ctx context.Context, t *check.Target) error {
	_, _ = Behavior(ctx, t) // other checks judge the result
	if err := t.Configure(ctx); err != nil {
		return err
	}
	_, _ = Behavior(ctx, t)
	return nil
}

// strangeConfig returns the given config with an unknown field, and its values as change makes them.
func strangeConfig(given []byte, change func(value any) any) ([]byte, error) {
	config := map[string]any{}
	if len(given) > 0 {
		d := json.NewDecoder(bytes.NewReader(given))
		d.UseNumber()
		if err := d.Decode(&config); err != nil {
			return nil, fmt.Errorf("the config given: %w", err)
		}
	}
	for field, value := range config {
		config[field] = change(value)
	}
	config[strangeField] = 1
	return json.Marshal(config)
}

func same(value any) any { return value }

// another returns a different value of the same kind.
func another(value any) any {
	switch v := value.(type) {
	case bool:
		return !v
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return f + 1
		}
		return v
	case string:
		return v + "x"
	case []any:
		return []any{}
	case map[string]any:
		changed := map[string]any{}
		for field, inner := range v {
			changed[field] = another(inner)
		}
		return changed
	default:
		return value
	}
}

func configuredWithUnknownField(ctx context.Context, t *check.Target) error {
	config, err := strangeConfig(t.Config, same)
	if err != nil {
		return err
	}
	err = t.ConfigureWith(ctx, config)
	if bad := check.Refused(err); bad != nil {
		return bad
	}
	if !strings.Contains(err.Error(), strangeField) {
		return fmt.Errorf("the refusal does not name it: %w", err)
	}
	return nil
}

func configuredWithRubbish(ctx context.Context, t *check.Target) error {
	for _, config := range []string{`{"a":`, `[1]`, `"text"`} {
		if err := check.Refused(t.ConfigureWith(ctx, []byte(config))); err != nil {
			return fmt.Errorf("%s: %w", config, err)
		}
	}
	return nil
}

func configuredKeepsFormer(ctx context.Context, t *check.Target) error {
	if err := t.Configure(ctx); err != nil {
		return err
	}
	before, err := Behavior(ctx, t)
	if err != nil {
		return check.NotApplicable("nothing to compare: " + err.Error())
	}
	// Restore the configuration for the checks that follow.
	defer func() { _ = t.Configure(ctx) }()
	config, err := strangeConfig(t.Config, same)
	if err != nil {
		return err
	}
	// A plugin that applies the valid part of a refused config then behaves differently.
	changed, err := strangeConfig(t.Config, another)
	if err != nil {
		return err
	}
	for _, bad := range [][]byte{changed, []byte(`{"` + strangeField + `": 1}`), config, []byte(`{"a":`)} {
		_ = t.ConfigureWith(ctx, bad) // judged by the checks above
		after, err := Behavior(ctx, t)
		if err != nil {
			return fmt.Errorf("after %.200s it does not work any more: %w", bad, err)
		}
		if before != after {
			return fmt.Errorf("before: %s; after %.200s: %s", before, bad, after)
		}
	}
	return nil
}

func configuredByNewer(ctx context.Context, t *check.Target) error {
	var dryRun int64
	if t.Node.DryRun {
		dryRun = 1
	}
	facts := check.Message{}.Text(1, t.Node.NodeName).Text(2, t.Node.RootDir).Text(3, t.Node.CgroupRoot).Text(4, t.Node.CgroupDriver).
		Text(5, t.Node.KubeletRootDir).Text(6, t.Node.PodLogsDir).Text(7, t.Node.RuntimeEndpoint).Text(8, t.Node.ImageEndpoint).
		Number(10, dryRun).Newer()
	_, err := t.CallWithin(ctx, eviction.ConfigureDeadline, "Configure", check.Message{}.Bytes(1, facts).Bytes(2, t.Config).Newer())
	return err
}

func configuredDuringCalls(ctx context.Context, t *check.Target) error {
	if _, err := Behavior(ctx, t); err != nil {
		return check.NotApplicable("other calls fail without it: " + err.Error())
	}
	return check.All(20, func(i int) error {
		if i%2 == 0 {
			return t.Configure(ctx)
		}
		_, err := Behavior(ctx, t)
		return check.Answered(err)
	})
}
