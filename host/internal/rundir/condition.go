package rundir

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// maxConditions is more than any set of plugins raises.
const maxConditions = 1000

// conditionsFile is when conditions were last seen, on disk.
type conditionsFile struct {
	Version  int                          `json:"version"`
	BootID   string                       `json:"bootID"`
	LastSeen map[eviction.Condition]stamp `json:"lastSeen"`
}

func encodeConditions(lastSeen map[eviction.Condition]time.Time, now moment) conditionsFile {
	f := conditionsFile{Version: formatVersion, BootID: now.bootID, LastSeen: make(map[eviction.Condition]stamp, len(lastSeen))}
	for c, t := range lastSeen {
		f.LastSeen[c] = now.at(t)
	}
	return f
}

// decodeConditions trusts nothing, see decodeKill.
func decodeConditions(data []byte, now moment) (map[eviction.Condition]time.Time, error) {
	var f conditionsFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if err := checkHeader(f.Version, f.BootID, now); err != nil {
		return nil, err
	}
	if len(f.LastSeen) > maxConditions {
		return nil, fmt.Errorf("lastSeen has %d conditions, want at most %d", len(f.LastSeen), maxConditions)
	}
	out := make(map[eviction.Condition]time.Time, len(f.LastSeen))
	for c, s := range f.LastSeen {
		if c == "" || len(c) > maxNameBytes {
			return nil, fmt.Errorf("lastSeen has a condition of %d bytes, want 1 to %d", len(c), maxNameBytes)
		}
		out[c] = now.wall.Add(-now.since(s))
	}
	return out, nil
}
