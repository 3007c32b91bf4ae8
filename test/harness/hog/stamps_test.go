package hog

import (
	"maps"
	"testing"
)

func TestParseStamps(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Stamps
	}{
		"nothing yet":                    {text: "", want: Stamps{}},
		"all there":                      {text: "ready 1\nterm 20\n", want: Stamps{"ready": 1, "term": 20}},
		"the last line is not yet whole": {text: "ready 1\nterm 2", want: Stamps{"ready": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStamps(c.text)
			if err != nil || !maps.Equal(got, c.want) {
				t.Errorf("parseStamps(%q) = %v, %v, want %v", c.text, got, err, c.want)
			}
		})
	}
	if _, err := parseStamps("term soon\n"); err == nil {
		t.Error("a stamp that is no number was accepted")
	}
}
