package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/evictd/evictd/shared/eviction"
)

// strangeField is a field that no configuration has.
const strangeField = "noSuchFieldInAnyConfiguration"

var configureChecks = []check{
	{
		configurable: true, name: "configure", input: "the facts of the node, and the configuration given, if any", gate: true,
		expect: fmt.Sprintf("it is accepted within %s", configureTime), run: configured,
	},
	{
		configurable: true, name: "configure-again", input: "the same once more, after other calls", warms: true,
		expect: "it is accepted", run: configuredAgain,
	},
	{
		configurable: true, name: "configure-unknown-field", input: `a config with the field "` + strangeField + `"`,
		expect: "a refusal that names the field", run: configuredWithUnknownField,
	},
	{
		configurable: true, name: "configure-not-json", input: `configs that are no JSON object: {"a":  and  [1]  and  "text"`,
		expect: "refusals", run: configuredWithRubbish,
	},
	{
		configurable: true, name: "configure-keeps-former", input: "calls before and after configs that were refused, with other values in what they have right",
		expect: "the former configuration is in force: the same signals are observed, the same ranking comes", run: configuredKeepsFormer,
	},
	{
		configurable: true, name: "configure-newer-host", input: "node facts and fields that do not exist yet",
		expect: "they are ignored, it is accepted", run: configuredByNewer,
	},
	{
		configurable: true, name: "configure-description", rpc: "Describe", input: "the same request as at first, once it is configured",
		expect: "the same answer as at first", run: describedAgain,
	},
	{
		configurable: true, name: "configure-during-calls", input: "the same configuration 10 times while other calls run",
		expect: "all of them are answered", run: configuredDuringCalls,
	},
}

func configured(ctx context.Context, t *target) error {
	err := t.configure(ctx)
	if errors.Is(err, eviction.ErrRefused) && len(t.run.options.Config) == 0 {
		return fmt.Errorf("%w (without any config; if it needs one, give it: --config FILE)", err)
	}
	return err
}

func configuredAgain(ctx context.Context, t *target) error {
	_, _ = t.behavior(ctx) // judged by other checks
	if err := t.configure(ctx); err != nil {
		return err
	}
	_, _ = t.behavior(ctx)
	return nil
}

// strangeConfig is the config given with a field that no configuration has and its
// other values changed.
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

// same is a value as it is.
func same(value any) any { return value }

// another is a value of the same kind.
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

func configuredWithUnknownField(ctx context.Context, t *target) error {
	config, err := strangeConfig(t.run.options.Config, same)
	if err != nil {
		return err
	}
	err = t.configureWith(ctx, config)
	if bad := refused(err); bad != nil {
		return bad
	}
	if !strings.Contains(err.Error(), strangeField) {
		return fmt.Errorf("the refusal does not name it: %w", err)
	}
	return nil
}

func configuredWithRubbish(ctx context.Context, t *target) error {
	for _, config := range []string{`{"a":`, `[1]`, `"text"`} {
		if err := refused(t.configureWith(ctx, []byte(config))); err != nil {
			return fmt.Errorf("%s: %w", config, err)
		}
	}
	return nil
}

func configuredKeepsFormer(ctx context.Context, t *target) error {
	if err := t.configure(ctx); err != nil {
		return err
	}
	before, err := t.behavior(ctx)
	if err != nil {
		return notApplicable("nothing to compare: " + err.Error())
	}
	// What follows is not to fail for it.
	defer func() { _ = t.configure(ctx) }()
	config, err := strangeConfig(t.run.options.Config, same)
	if err != nil {
		return err
	}
	// Who takes over what is right in it shows it.
	changed, err := strangeConfig(t.run.options.Config, another)
	if err != nil {
		return err
	}
	for _, bad := range [][]byte{changed, []byte(`{"` + strangeField + `": 1}`), config, []byte(`{"a":`)} {
		_ = t.configureWith(ctx, bad) // judged by the checks above
		after, err := t.behavior(ctx)
		if err != nil {
			return fmt.Errorf("after %.200s it does not work any more: %w", bad, err)
		}
		if before != after {
			return fmt.Errorf("before: %s; after %.200s: %s", before, bad, after)
		}
	}
	return nil
}

func configuredByNewer(ctx context.Context, t *target) error {
	var dryRun int64
	if t.run.node.DryRun {
		dryRun = 1
	}
	facts := message{}.text(1, t.run.node.NodeName).text(2, t.run.node.RootDir).text(3, t.run.node.CgroupRoot).text(4, t.run.node.CgroupDriver).
		text(5, t.run.node.KubeletRootDir).text(6, t.run.node.PodLogsDir).text(7, t.run.node.RuntimeEndpoint).text(8, t.run.node.ImageEndpoint).
		text(9, t.run.node.SummarySocket).number(10, dryRun).newer()
	return t.run.options.within(ctx, configureTime, func(ctx context.Context) error {
		_, err := t.call(ctx, "Configure", message{}.bytes(1, facts).bytes(2, t.run.options.Config).newer())
		return err
	})
}

func configuredDuringCalls(ctx context.Context, t *target) error {
	if _, err := t.behavior(ctx); err != nil {
		return notApplicable("other calls fail without it: " + err.Error())
	}
	return all(20, func(i int) error {
		if i%2 == 0 {
			return t.configure(ctx)
		}
		_, err := t.behavior(ctx)
		return answered(err)
	})
}
