package sandbox

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestParseCapabilities(t *testing.T) {
	for name, c := range map[string]struct {
		names   []string
		want    Capabilities
		text    string
		unknown []string
	}{
		"nothing":            {nil, 0, "none", nil},
		"the first":          {[]string{"CAP_CHOWN"}, 1, "CAP_CHOWN", nil},
		"without the prefix": {[]string{"SYS_ADMIN"}, 1 << 21, "CAP_SYS_ADMIN", nil},
		"in lower case":      {[]string{"cap_checkpoint_restore"}, 1 << 40, "CAP_CHECKPOINT_RESTORE", nil},
		"twice":              {[]string{"KILL", "CAP_KILL", "BPF"}, 1<<5 | 1<<39, "CAP_KILL,CAP_BPF", nil},
		"at a word's end":    {[]string{"SETFCAP", "MAC_OVERRIDE"}, 1<<31 | 1<<32, "CAP_SETFCAP,CAP_MAC_OVERRIDE", nil},
		"that are none":      {[]string{"CAP_ROOT", "KILL", ""}, 1 << 5, "CAP_KILL", []string{"CAP_ROOT", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			got, unknown := ParseCapabilities(c.names)
			if got != c.want || got.String() != c.text || !slices.Equal(unknown, c.unknown) {
				t.Errorf("got %#x (%s), unknown %q, want %#x (%s), %q", uint64(got), got, unknown, uint64(c.want), c.text, c.unknown)
			}
		})
	}
}

// The status is read by `evictctl plugins`, too.
func TestCapabilitiesAsJSON(t *testing.T) {
	for set, want := range map[Capabilities]string{0: `"none"`, 1<<5 | 1<<39: `"CAP_KILL,CAP_BPF"`} {
		text, err := json.Marshal(set)
		var again Capabilities
		if err != nil || string(text) != want || json.Unmarshal(text, &again) != nil || again != set {
			t.Errorf("%s (%v) and back %s, want %s", text, err, again, want)
		}
	}
}
