package sdk_test

import (
	"context"
	"errors"
	"fmt"
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

// An unknown field hid what was wrong with the values of the others.
func TestAllErrorsOfAConfigurationAreReportedAtOnce(t *testing.T) {
	applied := 0
	c := sdk.ConfigureChecked(func(s *settings, _ eviction.NodeFacts) error {
		s.Skip = append(s.Skip, "completed")
		if s.Factor < 0 {
			return errors.New("factor is negative")
		}
		return nil
	}, func(_ context.Context, _ eviction.NodeFacts, s settings) error {
		if applied++; len(s.Skip) != 1 {
			t.Errorf("applied %+v, want what check has made of it", s)
		}
		return nil
	})
	for config, want := range map[string]string{
		`{"factor":1}`:                `<nil>`,
		`{"factor":-1}`:               `factor is negative`,
		`{"fakctor":1}`:               `config: unknown field "fakctor"`,
		`{"factor":-1,"x":1,"y":1}`:   "config: unknown field \"x\"\nconfig: unknown field \"y\"\nfactor is negative",
		`{"factor":-1,"factor":-2}`:   "config: duplicate field \"factor\"\nfactor is negative",
		`{"factor":-1,"skip":"text"}`: "config: json: cannot unmarshal string into Go struct field settings.skip of type []string", // not whole, nothing to check
	} {
		before := applied
		err := c.Configure(t.Context(), eviction.ConfigureRequest{Config: []byte(config)})
		if fmt.Sprint(err) != want {
			t.Errorf("%s: got %v, want %s", config, err, want)
		}
		if got := applied > before; got != (err == nil) {
			t.Errorf("%s: applied: %v, and the error is %v", config, got, err)
		}
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
