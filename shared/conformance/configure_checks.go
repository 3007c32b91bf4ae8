package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/evictd/evictd/shared/eviction"
)

// strangeField is a field that no configuration has.
const strangeField = "noSuchFieldInAnyConfiguration"

func configureChecks() []check {
	checks := []check{
		{
			name: "configure", rpc: "Configure", input: "the facts of the node, and the configuration given, if any", gate: true,
			expect: fmt.Sprintf("it is accepted within %s", configureTime), run: configured,
		},
		{
			name: "configure-again", rpc: "Configure", input: "the same once more, after other calls", warms: true,
			expect: "it is accepted", run: configuredAgain,
		},
		{
			name: "configure-unknown-field", rpc: "Configure", input: `a config with the field "` + strangeField + `"`,
			expect: "a refusal that names the field", run: configuredWithUnknownField,
		},
		{
			name: "configure-not-json", rpc: "Configure", input: `configs that are no JSON object: {"a":  and  [1]  and  "text"`,
			expect: "refusals", run: configuredWithRubbish,
		},
		{
			name: "configure-keeps-former", rpc: "Configure", input: "calls before and after configs that were refused, with other values in what they have right",
			expect: "the former configuration is in force: the same signals are observed, the same ranking comes", run: configuredKeepsFormer,
		},
		{
			name: "configure-newer-host", rpc: "Configure", input: "node facts and fields that do not exist yet",
			expect: "they are ignored, it is accepted", run: configuredByNewer,
		},
		{
			name: "configure-description", rpc: "Describe", input: "the same request as at first, once it is configured",
			expect: "the same answer as at first", run: describedAgain,
		},
		{
			name: "configure-during-calls", rpc: "Configure", input: "the same configuration 10 times while other calls run",
			expect: "all of them are answered", run: configuredDuringCalls,
		},
	}
	for i := range checks {
		checks[i].configurable = true
	}
	return checks
}

func configured(ctx context.Context, s *subject) error {
	err := s.configure(ctx)
	if errors.Is(err, eviction.ErrRefused) && len(s.options.Config) == 0 {
		return fmt.Errorf("%w (without any config; if it needs one, give it: --config FILE)", err)
	}
	return err
}

func configuredAgain(ctx context.Context, s *subject) error {
	_, _ = s.behavior(ctx) // judged by other checks
	if err := s.configure(ctx); err != nil {
		return err
	}
	_, _ = s.behavior(ctx)
	return nil
}

// configureWith sends a config that is to be refused.
func (s *subject) configureWith(ctx context.Context, config []byte) error {
	return s.options.within(ctx, configureTime, func(ctx context.Context) error {
		return s.plugin.Configurer.Configure(ctx, eviction.ConfigureRequest{Node: s.node, Config: config})
	})
}

func (s *subject) strangeConfig() ([]byte, error) {
	config := map[string]json.RawMessage{}
	if len(s.options.Config) > 0 {
		if err := json.Unmarshal(s.options.Config, &config); err != nil {
			return nil, fmt.Errorf("the config given: %w", err)
		}
	}
	config[strangeField] = json.RawMessage("1")
	return json.Marshal(config)
}

// otherConfigs are configurations that are wrong in one field and differ from the one
// given in the others: who takes over what is right in them shows it.
func (s *subject) otherConfigs() ([][]byte, error) {
	config := map[string]any{}
	if len(s.options.Config) > 0 {
		if err := json.Unmarshal(s.options.Config, &config); err != nil {
			return nil, fmt.Errorf("the config given: %w", err)
		}
	}
	for field, value := range config {
		config[field] = another(value)
	}
	config[strangeField] = 1
	changed, err := json.Marshal(config)
	return [][]byte{changed, []byte(`{"` + strangeField + `": 1}`)}, err
}

// another is a value of the same kind.
func another(value any) any {
	switch v := value.(type) {
	case bool:
		return !v
	case float64:
		return v + 1
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

func configuredWithUnknownField(ctx context.Context, s *subject) error {
	config, err := s.strangeConfig()
	if err != nil {
		return err
	}
	err = s.configureWith(ctx, config)
	if bad := refused(err); bad != nil {
		return bad
	}
	if !strings.Contains(err.Error(), strangeField) {
		return fmt.Errorf("the refusal does not name it: %w", err)
	}
	return nil
}

func configuredWithRubbish(ctx context.Context, s *subject) error {
	for _, config := range []string{`{"a":`, `[1]`, `"text"`} {
		if err := refused(s.configureWith(ctx, []byte(config))); err != nil {
			return fmt.Errorf("%s: %w", config, err)
		}
	}
	return nil
}

func configuredKeepsFormer(ctx context.Context, s *subject) error {
	if err := s.configure(ctx); err != nil {
		return err
	}
	before, err := s.behavior(ctx)
	if err != nil {
		return notApplicable("nothing to compare: " + err.Error())
	}
	// What follows is not to fail for it.
	defer func() { _ = s.configure(ctx) }()
	config, err := s.strangeConfig()
	if err != nil {
		return err
	}
	others, err := s.otherConfigs()
	if err != nil {
		return err
	}
	for _, bad := range append(others, config, []byte(`{"a":`)) {
		_ = s.configureWith(ctx, bad) // judged by the checks above
		after, err := s.behavior(ctx)
		if err != nil {
			return fmt.Errorf("after %.200s it does not work any more: %w", bad, err)
		}
		if before != after {
			return fmt.Errorf("before: %s; after %.200s: %s", before, bad, after)
		}
	}
	return nil
}

// behavior is what calls say that should not depend on time.
func (s *subject) behavior(ctx context.Context) (string, error) {
	var b strings.Builder
	if signals := s.offering(eviction.CanObserve); len(signals) > 0 {
		reply, err := s.observe(ctx, eviction.ViewBefore, signals...)
		if err != nil {
			return "", fmt.Errorf("observe: %w", err)
		}
		for _, o := range reply.Observations {
			fmt.Fprintf(&b, "%s state %d; ", o.Signal, o.State)
		}
	}
	if signals := s.offering(eviction.CanRank); len(signals) > 0 {
		order, err := s.rank(ctx, s.rankRequest(signals[0], s.candidates(12)))
		if err != nil {
			return "", fmt.Errorf("rank: %w", err)
		}
		fmt.Fprintf(&b, "ranking %s", order)
	}
	return b.String(), nil
}

func configuredByNewer(ctx context.Context, s *subject) error {
	facts := message{}.text(1, s.node.NodeName).text(2, s.node.RootDir).text(3, s.node.CgroupRoot).text(4, s.node.CgroupDriver).
		text(5, s.node.KubeletRootDir).text(6, s.node.PodLogsDir).text(7, s.node.RuntimeEndpoint).text(8, s.node.ImageEndpoint).
		text(9, s.node.SummarySocket).newer()
	return s.options.within(ctx, configureTime, func(ctx context.Context) error {
		_, err := s.call(ctx, "Configure", message{}.bytes(1, facts).bytes(2, s.options.Config).newer())
		return err
	})
}

func configuredDuringCalls(ctx context.Context, s *subject) error {
	if _, err := s.behavior(ctx); err != nil {
		return notApplicable("other calls fail without it: " + err.Error())
	}
	return all(20, func(i int) error {
		if i%2 == 0 {
			return s.configure(ctx)
		}
		_, err := s.behavior(ctx)
		return answered(err)
	})
}
