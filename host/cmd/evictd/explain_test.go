package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/record"
)

// "rt/x.json" is a pod's name, and was read as a file's.
func TestExplainFindsAPodThatIsNamedLikeAFile(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ofPod := &record.Record{ID: "r1", Kind: record.KindEviction, Time: at, Victim: &record.Victim{Pod: "rt/x.json", UID: "x-1", Signal: "memory.available"}}
	state := recorded(t, ofPod)
	t.Chdir(t.TempDir())
	explain := func(what string) result {
		t.Helper()
		return evictd(t, "explain", "--json", "--state-dir", state, what)
	}
	for _, what := range []string{"rt/x.json", "x.json"} {
		if got := explain(what); got.Code != exitFine || !strings.Contains(got.Out, `"r1"`) || got.Errors != "" {
			t.Errorf("explain %s: %d %s%s, want the pod's record", what, got.Code, got.Out, got.Errors)
		}
	}
	if got := explain("rt/y.json"); got.Code == exitFine || !strings.Contains(got.Errors, "no such file") || !strings.Contains(got.Errors, "no record of it in "+state) {
		t.Errorf("explain of neither: %d %s, want to be told that there is no file and no pod", got.Code, got.Errors)
	}
	inFile := *ofPod
	inFile.ID = "r2"
	data, err := json.Marshal(&inFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("x.json", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := explain("x.json"); got.Code != exitFine || !strings.Contains(got.Out, `"r2"`) || !strings.Contains(got.Errors, "tells of the file") || !strings.Contains(got.Errors, "r1") {
		t.Errorf("explain of both: %d %s%s, want the file's record, and to be told that", got.Code, got.Out, got.Errors)
	}
	if err := os.WriteFile("rt", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := explain("rt/x.json"); got.Code != exitFine || !strings.Contains(got.Out, `"r1"`) || !strings.Contains(got.Errors, "tells of the pod") {
		t.Errorf("explain of a pod beside a file that cannot be read: %d %s%s, want the pod's record, and to be told that", got.Code, got.Out, got.Errors)
	}
}
