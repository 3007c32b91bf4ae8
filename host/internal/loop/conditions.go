package loop

import (
	"maps"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// saveEvery bounds how often unchanged conditions are written: a restarted host
// may take them to have been last seen that much earlier.
const saveEvery = 5 * time.Second

// savedConditions is what the run directory holds.
type savedConditions struct {
	lastSeen map[eviction.Condition]time.Time
	at       time.Time
}

// saveConditions writes when conditions were last seen: at once when one appears
// or goes, else now and then. It does not wait for the disk.
func (l *Loop) saveConditions(now time.Time) {
	lastSeen := l.state.ConditionsLastSeen()
	if maps.Equal(lastSeen, l.saved.lastSeen) {
		return
	}
	same := len(lastSeen) == len(l.saved.lastSeen)
	for c := range lastSeen {
		_, had := l.saved.lastSeen[c]
		same = same && had
	}
	if same && now.Sub(l.saved.at) < saveEvery {
		return
	}
	l.saved = savedConditions{lastSeen: maps.Clone(lastSeen), at: now}
	if err := l.Journal.SaveConditions(lastSeen); err != nil {
		l.Log.Error("conditions are not in the journal, a restart would forget them", "error", err)
	}
}
