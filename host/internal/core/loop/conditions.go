package loop

import (
	"log/slog"
	"maps"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// saveEvery bounds how often unchanged conditions are saved. A restarted host may take them to have
// been last seen that much earlier.
const saveEvery = 5 * time.Second

// savedConditions holds the node conditions as saved in the run directory.
type savedConditions struct {
	lastSeen map[eviction.Condition]time.Time
	at       time.Time
}

// save records when conditions were last seen: at once when one appears or clears, otherwise every
// saveEvery. It does not wait for the disk.
func (s *savedConditions) save(now time.Time, lastSeen map[eviction.Condition]time.Time, journal Journal, log *slog.Logger) {
	same := maps.EqualFunc(lastSeen, s.lastSeen, func(_, _ time.Time) bool { return true })
	if maps.Equal(lastSeen, s.lastSeen) || same && now.Sub(s.at) < saveEvery {
		return
	}
	*s = savedConditions{lastSeen: lastSeen, at: now}
	if err := journal.SaveConditions(lastSeen); err != nil {
		log.Error("conditions are not in the journal, a restart would forget them", "error", err)
	}
}
