package nodeview

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestANodeIsShownAsTables(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 50, 0, time.UTC)
	var s View
	if err := json.Unmarshal([]byte(`{"version": "v1.0.0", "nodeName": "node-1", "dryRun": true, "notReady": "the runtime is away", "conditions": ["MemoryPressure"],
		"thresholds": [{"signal": "memory.available", "value": "1Gi", "gracePeriod": "30s", "since": "2026-01-01T12:00:20Z"}, {"signal": "nodefs.available", "value": "10%"}],
		"signals": [{"signal": "memory.available", "state": "observed", "available": 943718400, "capacity": 8589934592, "time": "2026-01-01T12:00:49Z"},
			{"signal": "nodefs.available", "state": "unknown"}],
		"evictions": [{"time": "2026-01-01T11:00:00Z", "pod": "shop/old", "signal": "memory.available", "state": "finished"}, {"time": "2026-01-01T12:00:00Z", "pod": "shop/\u001bnew", "signal": "memory.available", "state": "killing"}],
		"plugins": [{"name": "memory", "state": "running", "version": "1", "restarts": 2}]}`), &s); err != nil {
		t.Fatal(err)
	}
	want := `node-1  evictd v1.0.0  12:00:50  conditions: MemoryPressure  dry run
NOT READY: the runtime is away

SIGNAL            AVAILABLE  OF   THRESHOLD  GRACE PERIOD  MET FOR  SEEN
memory.available  900Mi      8Gi  <1Gi       30s           30s      1s ago
nodefs.available  unknown    -    <10%       -             -        -

who would go is not known: no threshold

EVICTED              POD        SIGNAL            STATE
2026-01-01 12:00:00  shop/�new  memory.available  killing
2026-01-01 11:00:00  shop/old   memory.available  finished

PLUGIN  STATE    VERSION  RESTARTS  WHY
memory  running  1        2         -
`
	if diff := cmp.Diff(want, string(s.Text(now, nil, errors.New("no threshold")))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
