package supervisor

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A refusal of several lines lost the plugin's name on all but the first.
func TestEachLineOfARefusalNamesThePlugin(t *testing.T) {
	got := errors.Join(reasons([]Status{
		{Name: "disk", State: Refused, Reason: "config: a\nconfig: b"}, {Name: "late"}, {Name: "well", State: Running}, {Name: "other", LastError: "x"},
	}, []string{"disk", "late", "well"})...).Error()
	if diff := cmp.Diff("plugin disk: config: a\nplugin disk: config: b\nplugin late: has not started in time", got); diff != "" {
		t.Error(diff)
	}
}
