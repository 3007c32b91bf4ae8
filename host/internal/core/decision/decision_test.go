package decision

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

func TestTheFastestFall(t *testing.T) {
	r := &Decision{Signals: []Series{
		{Signal: eviction.PIDAvailable, Unit: 1, Available: []int64{1000, -900}},
		{Signal: eviction.MemoryAvailable, Unit: 2 << 20, Available: []int64{4000, 10, -300, -350, 200}},
	}}
	for signal, want := range map[eviction.Signal]int64{eviction.MemoryAvailable: 700 << 20, eviction.PIDAvailable: 900, eviction.NodeFsAvailable: 0} {
		if got := r.Fall(signal); got != want {
			t.Errorf("%s: %d, want %d", signal, got, want)
		}
	}
}

func TestTheHeadNeedsOnlyTheBeginningOfARecord(t *testing.T) {
	d := Decision{
		Version: Version, ID: "r1", Kind: KindEviction, Time: time.Unix(1_800_000_000, 0).UTC(), DryRun: true, Reason: "why", Node: "n1",
		Thresholds: []Threshold{{Signal: eviction.PIDAvailable, Value: "10", Acted: true}}, Candidates: make([]Candidate, 10),
	}
	evicted := d
	evicted.Victim = &Victim{UID: "u1", Pod: "shop/web", Signal: "memory.available"}
	evicted.Outcome = &Outcome{ID: "r1", State: "finished", GoneMS: 12, After: &Series{Available: []int64{1, 2}}}
	for _, d := range []Decision{d, evicted} {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		end := bytes.Index(text, []byte(`,"node"`))
		got, err := DecodeHead(bytes.NewReader(append(text[:end], `,"node":`...)))
		if diff := cmp.Diff(d.Head(), got); diff != "" || err != nil || got.Signal == "" {
			t.Errorf("%v %s", err, diff)
		}
		if got, err := DecodeHead(bytes.NewReader(text[:end-1])); err == nil {
			t.Errorf("cut off: %+v", got)
		}
	}
	for _, text := range []string{"", "null", "{}", "[1]", `{"version":2,"id":"r1"}`, `{"version":1}`, `{"version":1,"id":"r1","time":7}`} {
		if got, err := DecodeHead(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v, want an error", text, got)
		}
	}
}
