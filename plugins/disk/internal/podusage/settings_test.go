package podusage

import (
	"strings"
	"testing"
)

func TestWalkSettings(t *testing.T) {
	if err := (Walk{}).Validate(); err != nil {
		t.Error(err)
	}
	err := Walk{EntriesPerMeasure: 1, Parallel: 65}.Validate()
	if err == nil || !strings.Contains(err.Error(), "entriesPerMeasure is 1") || !strings.Contains(err.Error(), "parallel is 65") {
		t.Errorf("error is %v, want both fields", err)
	}
}
