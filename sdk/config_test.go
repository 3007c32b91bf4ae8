package sdk_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

type settings struct {
	Factor int      `json:"factor"`
	Nested *nested  `json:"nested,omitempty"`
	Skip   []string `json:"skip,omitempty"`
}

type nested struct {
	Path string `json:"path"`
}

func TestDecodeConfig(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		want settings
		errs []string // parts of the error's lines
	}{
		"none":       {raw: "", want: settings{Factor: 7}},
		"null":       {raw: "null", want: settings{Factor: 7}},
		"empty":      {raw: "{}", want: settings{Factor: 7}},
		"set":        {raw: `{"factor":1,"nested":{"path":"/x"},"skip":["a"]}`, want: settings{Factor: 1, Nested: &nested{Path: "/x"}, Skip: []string{"a"}}},
		"not JSON":   {raw: `{"factor":`, errs: []string{"config: unexpected end of JSON input"}},
		"wrong type": {raw: `{"factor":"many"}`, errs: []string{"factor"}},
		// The first value that could not be taken hid all else.
		"a wrong type and unknown fields": {raw: `{"nested":{"pth":"/y"},"fakctor":3,"factor":"many"}`, errs: []string{
			`config: json: cannot unmarshal string`, `config: unknown field "fakctor"`, `config: unknown field "nested.pth"`,
		}},
		"trailing": {raw: `{} {}`, errs: []string{"config: "}},
		"all unknown and duplicate fields at once": {
			raw: `{"factor":1,"factor":2,"fakctor":3,"nested":{"path":"/x","pth":"/y"}}`,
			errs: []string{
				`config: duplicate field "factor"`,
				`config: unknown field "fakctor"`,
				`config: unknown field "nested.pth"`,
			},
		},
		"another case is another field": {raw: `{"Factor":1}`, errs: []string{`config: unknown field "Factor"`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := settings{Factor: 7}
			err := sdk.DecodeConfig([]byte(c.raw), &got)
			if len(c.errs) == 0 {
				if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
					t.Errorf("error %v, config (-want +got):\n%s", err, diff)
				}
				return
			}
			if err == nil {
				t.Fatalf("accepted as %+v", got)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.errs) {
				t.Fatalf("got %d lines, want %d:\n%v", len(lines), len(c.errs), err)
			}
			for i := range lines {
				if !strings.Contains(lines[i], c.errs[i]) {
					t.Errorf("line %d is %q, want %q in it", i, lines[i], c.errs[i])
				}
			}
		})
	}
}

func TestConfigureAppliesOnlyWhatItUnderstood(t *testing.T) {
	var applied []settings
	refuse := errors.New("factor 13 is bad luck")
	c := sdk.Configure(func(_ context.Context, _ eviction.NodeFacts, s settings) error {
		if s.Factor == 13 {
			return refuse
		}
		applied = append(applied, s)
		return nil
	})
	for _, step := range []struct {
		config string
		ok     bool
	}{{`{"factor":1,"skip":["a"]}`, true}, {`{"factr":2}`, false}, {`{"factor":13}`, false}, {``, true}} {
		err := c.Configure(t.Context(), eviction.ConfigureRequest{Config: []byte(step.config)})
		if (err == nil) != step.ok {
			t.Errorf("config %q: error %v", step.config, err)
		}
	}
	// The second configuration starts anew: what it leaves out is the default.
	if diff := cmp.Diff([]settings{{Factor: 1, Skip: []string{"a"}}, {}}, applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}
