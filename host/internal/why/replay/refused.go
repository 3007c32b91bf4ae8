package replay

import (
	"slices"
	"strings"
)

// compareConfig compares refusals of the configuration. Their texts may differ: of several problems
// the recorded manager reports one, and we report all.
func compareConfig(s *Scenario, got, want *Decisions) *Difference {
	recorded := want.ConfigErrors
	if want.ConfigError != "" {
		recorded = append(slices.Clone(recorded), want.ConfigError)
	}
	same := func(text string) bool { return s.Config.saysSame(got.ConfigError, text) }
	if (got.ConfigError == "") == (want.ConfigError == "") && slices.ContainsFunc(recorded, same) {
		return nil
	}
	return &Difference{Step: -1, Field: "configError", Got: asJSON(got.ConfigError), Want: asJSON(want.ConfigError)}
}

// saysSame reports whether a line of ours contains the whole recorded text, or names the same
// fields and values of the configuration.
func (c *Config) saysSame(ours, recorded string) bool {
	if ours == "" {
		return false
	}
	own := c.words()
	named := slices.DeleteFunc(words(recorded), func(w string) bool { return !own[w] })
	for line := range strings.Lines(ours) {
		if strings.Contains(line, recorded) {
			return true
		}
		said := words(line)
		if len(named) > 0 && !slices.ContainsFunc(named, func(w string) bool { return !slices.Contains(said, w) }) {
			return true
		}
	}
	return false
}

// words returns the fields and values of the thresholds.
func (c *Config) words() map[string]bool {
	own := map[string]bool{}
	for _, m := range []map[string]string{c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim} {
		for field, value := range m {
			own[field], own[value] = true, true
		}
	}
	return own
}

// words splits a text at blanks and at punctuation that does not occur in signals and amounts.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`:;,[](){}", r) })
}
