package host

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A mode that the configuration lets through and nobody knows would end evictd.
func TestTheConfigurationHasTheModesThatThereAre(t *testing.T) {
	c := DefaultConfig()
	c.Mode = "none"
	err := c.Validate()
	if err == nil {
		t.Fatal("a mode that there is not is let through")
	}
	var legal, there []string
	for _, m := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(err.Error(), -1)[1:] {
		legal = append(legal, m[1])
	}
	for name := range modes {
		there = append(there, name)
	}
	slices.Sort(legal)
	slices.Sort(there)
	if diff := cmp.Diff(legal, there); diff != "" {
		t.Errorf("modes (-legal +there):\n%s", diff)
	}
}
