package gc

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestSettingsAreTheKubeletsUnlessTheySayOtherwise(t *testing.T) {
	const periodic = `"imageGCHighThresholdPercent":85,"imageGCLowThresholdPercent":80,"imageMaximumGCAge":"0s"}`
	for text, want := range map[string]string{
		`{}`: `{"imageMinimumGCAge":"2m0s","minAge":"0s","maxPerPodContainer":1,"maxContainers":-1,"containerLogsDir":"/var/log/containers",` + periodic,
		`{"maxPerPodContainer":0,"imageMinimumGCAge":"0s"}`: `{"imageMinimumGCAge":"0s","minAge":"0s","maxPerPodContainer":0,"maxContainers":-1,"containerLogsDir":"/var/log/containers",` + periodic,
		`{"minAge":"90s","maxContainers":7}`:                `{"imageMinimumGCAge":"2m0s","minAge":"1m30s","maxPerPodContainer":1,"maxContainers":7,"containerLogsDir":"/var/log/containers",` + periodic,
		`{"maxPerPodContainer":null}`:                       `{"imageMinimumGCAge":"2m0s","minAge":"0s","maxPerPodContainer":1,"maxContainers":-1,"containerLogsDir":"/var/log/containers",` + periodic,
	} {
		var s Settings
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(s.filled())
		if err != nil || string(got) != want {
			t.Errorf("%s is %s, %v, want %s", text, got, err, want)
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if d := (Settings{}).filled(); *d.MaxPerPodContainer != 1 || time.Duration(*d.ImageMinimumGCAge) != 2*time.Minute {
		t.Errorf("defaults are %+v", d)
	}
}

func TestSettingsThatAreWrong(t *testing.T) {
	for text, want := range map[string][]string{
		`{"imageMinimumGCAge":"soon"}`: {`"soon"`, `"2m"`},
		`{"minAge":120}`:               {"120", "string"},
	} {
		var s Settings
		if err := json.Unmarshal([]byte(text), &s); err == nil || !strings.Contains(err.Error(), want[0]) || !strings.Contains(err.Error(), want[1]) {
			t.Errorf("%s: error %v, want %q in it", text, err, want)
		}
	}
	negative := Duration(-time.Second)
	err := Settings{ImageMinimumGCAge: &negative, MinAge: &negative, ContainerLogsDir: "logs"}.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Fatalf("error %v, want three lines", err)
	}
	for i, field := range []string{"imageMinimumGCAge", "minAge", "containerLogsDir"} {
		if line := strings.Split(err.Error(), "\n")[i]; !strings.HasPrefix(line, field+" is ") {
			t.Errorf("line %q, want one about %s", line, field)
		}
	}
}

// The kubelet's words, by which people look for what is wrong.
func TestPeriodicSettingsThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		`{"imageGCHighThresholdPercent":101}`:                                 "imageGCHighThresholdPercent 101 must be between 0 and 100, inclusive",
		`{"imageGCLowThresholdPercent":-1}`:                                   "imageGCLowThresholdPercent -1 must be between 0 and 100, inclusive",
		`{"imageGCHighThresholdPercent":80}`:                                  "imageGCLowThresholdPercent 80 must be less than imageGCHighThresholdPercent 80",
		`{"imageMaximumGCAge":"-1s"}`:                                         "imageMaximumGCAge -1s must not be negative",
		`{"imageMaximumGCAge":"2m"}`:                                          "imageMaximumGCAge 2m0s must be greater than imageMinimumGCAge 2m0s",
		`{"imageMaximumGCAge":"2m","imageMinimumGCAge":"1m"}`:                 "",
		`{"imageGCHighThresholdPercent":100,"imageGCLowThresholdPercent":0}`:  "",
		`{"logGC":false}`:                                                     "logGC was removed, use the kubelet's containerLogMaxSize and containerLogMaxFiles",
		`{"imageGCLowThresholdPercent":200,"imageGCHighThresholdPercent":-2}`: "imageGCHighThresholdPercent -2 must be between 0 and 100, inclusive\nimageGCLowThresholdPercent 200 must be between 0 and 100, inclusive\nimageGCLowThresholdPercent 200 must be less than imageGCHighThresholdPercent -2",
	} {
		var s Settings
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := s.Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: error %q, want %q", text, got, want)
		}
	}
}
