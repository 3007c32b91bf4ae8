package typo

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"memory", "disk", "pid", "gpu-memory", "evictionHard"}
	for name, want := range map[string]string{
		"memroy":        "memory",
		"gpu-memroy":    "gpu-memory",
		"evictionhard":  "evictionHard",
		"evictionHards": "evictionHard",
		"dsk":           "disk",
		"pid":           "pid",
		"pds":           "",
		"oldest":        "",
		"":              "",
		"x":             "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
