package schema_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/schema"
	"github.com/evictd/evictd/shared/eviction"
)

const document = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "https://acme.example/config.json",
  "type": "object",
  "additionalProperties": false,
  "required": ["mode"],
  "properties": {
    "mode": {"enum": ["fast", "slow"]},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
    "ratio": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1.5, "multipleOf": 0.25},
    "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$", "format": "hostname"},
    "size": {"anyOf": [{"type": "string", "pattern": "^[0-9]+Mi$"}, {"type": "integer", "minimum": 0}]},
    "paths": {"type": "array", "items": {"$ref": "#/$defs/path"}, "minItems": 1, "maxItems": 3, "uniqueItems": true},
    "rules": {"type": "object", "additionalProperties": {"$ref": "#/$defs/rule"}, "propertyNames": {"pattern": "^[a-z.]+$"}}
  },
  "$defs": {
    "path": {"type": "string", "pattern": "^/"},
    "rule": {"type": "object", "properties": {"weight": {"type": "integer"}, "not": {"$ref": "#/$defs/rule"}, "version": {"const": 1}}, "additionalProperties": false}
  }
}`

func TestErrorsNameTheField(t *testing.T) {
	for config, want := range map[string]string{
		`{"mode": "fast", "limit": 100, "ratio": 0.5, "name": "abc", "size": "5Mi", "paths": ["/a"],
			"rules": {"a.b": {"weight": 1, "not": {"weight": 2}, "version": 1}}}`: "",
		`{"mode": "fast", "limit": 1.0}`: "",
		``:                               "mode: missing, want a value",
		`{}`:                             "mode: missing, want a value",
		`[]`:                             "[]: want type object",
		`{"mode":`:                       "unexpected EOF",
		`{"limit": 0}`:                   "limit: 0: want at least 1\nmode: missing, want a value",
		`{"mode": "quick"}`:              `mode: "quick": want one of "fast", "slow"`,
		`{"mode": "fast", "limit": "many", "ratio": 3, "name": "A"}`: `limit: "many": want type integer
name: "A": want a text that matches ^[a-z]+$
name: "A": want at least 2 characters
ratio: 3: want less than 1.5`,
		`{"mode": "fast", "limit": 101}`:                                "limit: 101: want at most 100",
		`{"mode": "fast", "ratio": 0}`:                                  "ratio: 0: want more than 0",
		`{"mode": "fast", "ratio": 0.3}`:                                "ratio: 0.3: want a multiple of 0.25",
		`{"mode": "fast", "name": "abcdef"}`:                            `name: "abcdef": want at most 5 characters`,
		`{"mode": "fast", "limti": 1}`:                                  `limti: unknown field, want "limit"`,
		`{"mode": "fast", "colour": 1}`:                                 `colour: unknown field, want one of limit, mode, name, paths, ratio, rules, size`,
		`{"mode": "fast", "size": "big"}`:                               `size: "big": want a text that matches ^[0-9]+Mi$, or type integer`,
		`{"mode": "fast", "size": -1}`:                                  `size: -1: want type string, or at least 0`,
		`{"mode": "fast", "paths": []}`:                                 `paths: []: want at least 1 items`,
		`{"mode": "fast", "paths": ["/a", "/b", "/c", "/d"]}`:           `paths: ["/a","/b","/c","/d"]: want at most 3 items`,
		`{"mode": "fast", "paths": ["/a", "b", "/a"]}`:                  "paths: [\"/a\",\"b\",\"/a\"]: want each item once: [0] and [2] are equal\npaths.1: \"b\": want a text that matches ^/",
		`{"mode": "fast", "rules": {"x.y": {"wieght": 2}}}`:             `rules.x.y.wieght: unknown field, want "weight"`,
		`{"mode": "fast", "rules": {"x": {"version": 2}}}`:              `rules.x.version: 2: want 1`,
		`{"mode": "fast", "rules": {"B": {}}}`:                          `rules.B: name of a field: want a text that matches ^[a-z.]+$`,
		`{"rules": {"a": {}, "B": {}}, "mode": "fast", "limit": 1}`:     `rules.B: name of a field: want a text that matches ^[a-z.]+$`,
		`{"mode": "fast", "rules": {"x": {"not": {"not": {"a": 1}}}}}`:  `rules.x.not.not.a: unknown field, want one of not, version, weight`,
		`{"mode": "fast", "rules": {"x": {"weight": null}}}`:            `rules.x.weight: null: want type integer`,
		`{"mode": "fast", "limit": "` + strings.Repeat("x", 100) + `"}`: `limit: "` + strings.Repeat("x", 79) + `...: want type integer`,
	} {
		err := schema.Check([]byte(document), []byte(config))
		if got := fmt.Sprint(err); got != want && (want != "" || err != nil) {
			t.Errorf("%s\ngot  %s\nwant %s", config, got, want)
		}
		if _, named := errors.AsType[eviction.FieldErrors](err); named != (want != "") {
			t.Errorf("%s: %T", config, err)
		}
	}
}

func TestOtherKeywords(t *testing.T) {
	for document, c := range map[string]struct{ config, want string }{
		`{"dependentRequired": {"a": ["b"]}}`:                  {`{"a": 1}`, "b: missing, want a value"},
		`{"properties": {"a": false}}`:                         {`{"a": 1}`, "a: unknown field, or one that is not allowed beside the others"},
		`{"oneOf": [{}, true]}`:                                {`{}`, "{}: want a value that fits one alternative alone"},
		`{"anyOf": [{"required": ["a"]}, {"type": "string"}]}`: {`{}`, "{}: want a: missing, want a value, or type string"},
		`{"maxProperties": 0}`:                                 {`{"a": 1}`, `{"a":1}: want what "maxProperties" of the plugin's schema allows`},
		`{"$ref": "#"}`:                                        {`{}`, "{}: want another schema: this one refers to itself for the same value"},
		`{"items": {"propertyNames": {"maxLength": 1}}}`:       {`[{"a": 1}, {"b": 1, "ab": 2}]`, "1.ab: name of a field: want at most 1 characters"},
		`{"$defs": {"a/b": {"properties": {"limit": {}}, "additionalProperties": false}}, "$ref": "#/$defs/a~1b"}`: {`{"limti": 1}`, `limti: unknown field, want "limit"`},
		`{"format": "ipv4", "contentEncoding": "base64"}`:                                                          {`"x"`, "<nil>"},
		// The schema itself is wrong, which is no field of the configuration.
		`{`:                  {`{}`, "schema: unexpected EOF"},
		`{"type": "nubmer"}`: {`{}`, "schema: "},
		`{"pattern": "("}`:   {`{}`, "schema: "},
		`{"$ref": "https://acme.example/schema.json"}`: {`{}`, "schema: "},
		`{"$ref": "file:///etc/hostname"}`:             {`{}`, "schema: "},
		`{"$schema": "https://acme.example/dialect"}`:  {`{}`, "schema: "},
	} {
		err := schema.Check([]byte(document), []byte(c.config))
		of, ofSchema := fmt.Sprint(err), strings.HasPrefix(c.want, "schema: ")
		if of != c.want && (!ofSchema || !strings.HasPrefix(of, c.want)) {
			t.Errorf("%s by %s\ngot  %s\nwant %s", c.config, document, of, c.want)
		}
		if _, named := errors.AsType[eviction.FieldErrors](err); named && ofSchema {
			t.Errorf("%s: %v, want no field", document, err)
		}
	}
}

type settings struct {
	Limit int `json:"limit"`
}

func TestWhatTheSchemaRefusesIsNotApplied(t *testing.T) {
	var applied []settings
	c := schema.Configurer([]byte(`{"properties": {"limit": {"maximum": 9}, "other": {}}, "additionalProperties": false}`),
		sdk.Configure(func(_ context.Context, _ eviction.NodeFacts, s settings) error {
			applied = append(applied, s)
			return nil
		}))
	for config, want := range map[string]string{
		`{"limit": 10}`: "limit: 10: want at most 9",
		`{"lmit": 1}`:   `lmit: unknown field, want "limit"`,
		`{"other": 1}`:  `config: unknown field "other"`, // sdk.Configure checks, too.
		`{"limit": 1}`:  "<nil>",
	} {
		if err := c.Configure(t.Context(), eviction.ConfigureRequest{Config: []byte(config)}); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
	if want := []settings{{1}}; !slices.Equal(applied, want) {
		t.Errorf("applied %v, want %v", applied, want)
	}
}
