package configschema

import (
	"bytes"
	"fmt"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/eviction"
)

// bounded bounds a compilation or a check on a busy machine.
const bounded = 5 * time.Second

// measured runs f and logs what it takes.
func measured(t *testing.T, f func() error) error {
	t.Helper()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before, begin := sample[0].Value.Uint64(), time.Now()
	err := f()
	took := time.Since(begin)
	metrics.Read(sample)
	mib := (sample[0].Value.Uint64() - before) >> 20
	t.Logf("%v and %d MiB: %.150v", took.Round(time.Millisecond), mib, err)
	if took > bounded || mib > 400 {
		t.Errorf("took %v and %d MiB in all", took, mib)
	}
	return err
}

// explode refers from each definition twice to the next, so that 2^n schemas apply to one value.
func explode(n int, how string) string {
	var b strings.Builder
	b.WriteString(`{"$ref": "#/$defs/d0", "$defs": {`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d": {%q: [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}, `, i, how, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d": {"type": "string"}}}`, n)
	return b.String()
}

func chain(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref": "#/$defs/d0", "$defs": {`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d": {"$ref": "#/$defs/d%d"}, `, i, i+1)
	}
	fmt.Fprintf(&b, `"d%d": {"type": "string"}}}`, n)
	return b.String()
}

func TestBadSchemasAreRefused(t *testing.T) {
	many := func(n int, each string) string { return strings.TrimSuffix(strings.Repeat(each+",", n), ",") }
	named := func(n int, each string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, each+",", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for name, c := range map[string]struct{ schema, want string }{
		"not JSON":            {`{"type":`, "is not a JSON document: unexpected end of JSON input"},
		"empty":               {" ", "is not a JSON document"},
		"no schema":           {`[1]`, "[1]: want type boolean or object"},
		"null":                {`null`, "null: want type boolean or object"},
		"wrong keyword":       {`{"type": "nubmer"}`, `type: "nubmer": want one of "array", "boolean"`},
		"two wrong keywords":  {`{"properties": {"a": {"minLength": -1}}, "required": "a"}`, `properties.a.minLength: -1: want at least 0`},
		"too large":           {`{"title": "` + strings.Repeat("x", eviction.MaxSchemaBytes) + `"}`, "want at most 65536"},
		"remote":              {`{"$ref": "https://acme.example/schema.json"}`, `$ref: "https://acme.example/schema.json": want "#" or`},
		"a file":              {`{"properties": {"a": {"$ref": "file:///etc/shadow"}}}`, `properties.a.$ref: "file:///etc/shadow": want "#" or`},
		"relative":            {`{"$id": "file:///etc/x", "$ref": "shadow"}`, `$ref: "shadow": want "#" or`},
		"its own address":     {`{"$ref": "schema://plugin/"}`, `$ref: "schema://plugin/": want "#"`},
		"reference to none":   {`{"$ref": "#/$defs/a"}`, `$ref: "#/$defs/a": want "#" or`},
		"no place of schemas": {`{"$ref": "#/default", "default": {"allOf": []}}`, `$ref: "#/default": want "#" or`},
		"remote dialect":      {`{"$schema": "https://acme.example/dialect"}`, `$schema: "https://acme.example/dialect": want none`},
		"older dialect":       {`{"$schema": "http://json-schema.org/draft-07/schema#"}`, "want none: the dialect is"},
		"inner id":            {`{"$defs": {"a": {"$id": "https://acme.example/a"}}}`, `$defs.a.$id: "https://acme.example/a": want none`},
		"anchor":              {`{"$anchor": "a"}`, `$anchor: "a": want none`},
		"dynamic reference":   {`{"$dynamicRef": "#a"}`, `$dynamicRef: "#a": want none`},
		"deep":                {strings.Repeat(`{"not":`, 5000) + "{}" + strings.Repeat("}", 5000), "levels deep, want at most 32"},
		"very deep":           {strings.Repeat(`[`, 60_000), "is not a JSON document"},
		"deep example":        {`{"default": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", "levels deep"},
		"many schemas":        {`{"allOf": [` + many(20_000, "{}") + `]}`, "has more than 1000 schemas"},
		"many booleans":       {`{"allOf": [` + many(12_000, "true") + `]}`, "has more than 1000 schemas"},
		"numbers for schemas": {`{"allOf": [` + many(30_000, "1") + `]}`, "has more than 1000 schemas"},
		"numbers for names":   {`{"required": [` + many(30_000, "1") + `]}`, "required: [1,1"},
		"names for types":     {`{"type": [` + many(7000, `"a"`) + `]}`, "type"},
		"lists for types":     {`{"properties": {` + named(900, `"%d": {"type": [1, [], {}], "enum": 1, "allOf": {}, "minimum": "x"}`) + `}}`, "properties"},
		"huge number":         {`{"multipleOf": 1e999999999}`, "cannot unmarshal number"},
		"tiny number":         {`{"multipleOf": 1e-999999999}`, "multipleOf: 0: want more than 0"},
		"bad pattern":         {`{"pattern": "("}`, "pattern: \"(\": want a regex"},
		"backward pattern":    {`{"pattern": "(?=a)"}`, "want a regex"},
		"repeats":             {`{"pattern": "` + strings.Repeat("[^a]{1000}", 6000) + `"}`, "expression too large"},
		"long patterns":       {`{"pattern": "` + strings.Repeat("[^a]{1000}", 30) + `"}`, "instructions, want at most 2000"},
		"nested repeats":      {`{"pattern": "(((a{30}){30}){30}){30}"}`, "invalid repeat count"},
		"empty repeats":       {`{"pattern": "((((){1000}){1000}){1000}){1000}"}`, "pattern"},
		"many patterns":       {`{"patternProperties": {` + named(900, `"%d[^a]{1000}": true`) + `}}`, "with all other patterns has more than 20000 instructions"},
		"wide classes":        {`{"pattern": "` + strings.Repeat(`\\pL`, 10_000) + `"}`, "instructions, want at most 2000"},
	} {
		t.Run(name, func(t *testing.T) {
			err := measured(t, func() error { _, err := Compile([]byte(c.schema)); return err })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
			if err != nil && len(err.Error()) > 30_000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// Schemas that compile are bounded when they check.
func TestSlowChecksEnd(t *testing.T) {
	object := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"k%d": %d`, i, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	var patterns, classes, enum strings.Builder
	for i := range 30 {
		fmt.Fprintf(&classes, `,"^%d(\\\\pL|\\\\pN){100}$": true`, i)
	}
	for i := range 18 {
		fmt.Fprintf(&patterns, `,"%d[^a]{1000}x": true`, i)
	}
	for i := range 10_000 {
		fmt.Fprintf(&enum, ",%d", i)
	}
	nested := strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500)
	tooLong := errWork.Error()
	for name, c := range map[string]struct{ schema, config, want string }{
		"allOf":               {explode(40, "allOf"), "{}", tooLong},
		"anyOf":               {explode(40, "anyOf"), "{}", tooLong},
		"oneOf":               {explode(40, "oneOf"), "{}", tooLong},
		"explosion in not":    {strings.Replace(explode(40, "anyOf"), `{"$ref": "#/$defs/d0"`, `{"not": {"$ref": "#/$defs/d0"}`, 1), "{}", tooLong},
		"wide classes":        {`{"patternProperties": {` + classes.String()[1:] + `}}`, object(5000), tooLong},
		"itself":              {`{"$ref": "#"}`, "{}", "{}: want another schema: this one refers to itself"},
		"itself in allOf":     {`{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}`, "{}", "refers to itself"},
		"itself by two":       {`{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}`, "{}", "refers to itself"},
		"recursive":           {`{"additionalProperties": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}`, nested, tooLong},
		"recursive, in not":   {`{"additionalProperties": {"not": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}}`, nested, tooLong},
		"a chain":             {chain(450), "{}", "{}: want type string"},
		"chains by field":     {`{"additionalProperties": {"$ref": "#/$defs/d0"}` + chain(450)[len(`{"$ref": "#/$defs/d0"`):], object(2000), tooLong},
		"many alternatives":   {`{"additionalProperties": {"anyOf": [` + strings.Repeat(`{"type": "string"},`, 900) + `false]}}`, object(5000), tooLong},
		"many failing fields": {`{"additionalProperties": {"type": "string"}}`, object(20_000), "and more"},
		"patterns":            {`{"patternProperties": {` + patterns.String()[1:] + `}}`, object(5000), tooLong},
		"a long text":         {`{"additionalProperties": {"pattern": "([^a]{1000}b)*x"}}`, `{"a": "` + strings.Repeat("b", 1<<20) + `"}`, tooLong},
		"a long enum":         {`{"additionalProperties": {"enum": [` + enum.String()[1:] + `]}}`, object(5000), tooLong},
		"a long constant":     {`{"additionalProperties": {"const": "` + strings.Repeat("x", 60_000) + `"}}`, object(5000), tooLong},
		"unevaluated":         {strings.Replace(explode(40, "allOf"), `{"$ref"`, `{"unevaluatedProperties": false, "$ref"`, 1), object(100), tooLong},
		"copied names":        {strings.Replace(explode(40, "allOf"), `{"$ref"`, `{"unevaluatedProperties": {}, "anyOf": [`+strings.Repeat("true,", 600)+`true], "allOf": [`+strings.Repeat(`{"type": "array"},`, 100)+`true], "$ref"`, 1), object(2000), tooLong},
		"unique and large":    {strings.Replace(explode(40, "allOf"), `{"type": "string"}`, `{"uniqueItems": true}`, 1), "[" + strings.Repeat(`"`+strings.Repeat("x", 40_000)+`",`, 20) + `1]`, tooLong},
		"unique and deep":     {strings.Replace(explode(40, "allOf"), `{"type": "string"}`, `{"uniqueItems": true}`, 1), "[" + strings.Repeat("["+strings.Repeat("1,", 20_000)+"1],", 18) + `1]`, ""},
		"long required":       {`{"additionalProperties": {"required": ["` + strings.ReplaceAll(enum.String()[1:30_000], ",", `x","`) + `"]}}`, `{"a": {}, "b": {}}`, ": missing, want a value"},
		"equal items":         {`{"properties": {"a": {"uniqueItems": true}}}`, `{"a": [` + strings.Repeat("{},", 20_000) + `{}]}`, "each item once: [0] and [1] are equal"},
	} {
		t.Run(name, func(t *testing.T) {
			var s *Schema
			err := measured(t, func() (err error) { s, err = Compile([]byte(c.schema)); return err })
			if err != nil {
				t.Fatalf("%.300v", err)
			}
			if err = measured(t, func() error { return s.Check([]byte(c.config), input.Place{}) }); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.1000v\nwant %s", err, c.want)
			}
			if err != nil && len(err.Error()) > 30_000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// What a check has spent does not count against the next one.
func TestChecksAreApart(t *testing.T) {
	s, err := Compile([]byte(`{"items": {"type": "object", "properties": {"a": {"type": "integer"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	config := []byte("[" + strings.Repeat(`{"a": 1},`, 9_000) + "{}]")
	for range 10 {
		if err := s.Check(config, input.Place{}); err != nil {
			t.Fatal(err)
		}
	}
}

const schema = `{
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

func place(t *testing.T, document string) ([]byte, input.Place) {
	t.Helper()
	asJSON, _, err := input.YAML([]byte(document), "fields")
	if err != nil {
		t.Fatal(err)
	}
	config, _ := bytes.CutPrefix(asJSON, []byte(`{"plugins":{"acme":{"config":`))
	config, ok := bytes.CutSuffix(config, []byte("}}}"))
	if !ok {
		t.Fatalf("%s", asJSON)
	}
	return config, input.Place{
		File: "/etc/evictd.yaml", Field: `plugins["acme"].config`,
		Lines: input.FieldLines([]byte(document), "plugins"), Pointer: "/plugins/acme/config",
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	s, err := Compile([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	for document, want := range map[string]string{
		"mode: fast\nlimit: 100\nratio: 0.5\nname: abc\nsize: 5Mi\npaths: [/a]\nrules: {a.b: {weight: 1, not: {weight: 2}, version: 1}}": "",
		"mode: fast\nlimit: 1.0": "",
		"{}":                     `3: .mode: missing, want a value`,
		"limit: 0":               "3: .mode: missing, want a value\n4: .limit: 0: want at least 1",
		"mode: quick":            `4: .mode: "quick": want one of "fast", "slow"`,
		"mode: fast\nlimit: many\nratio: 3\nname: A": `5: .limit: "many": want type integer
6: .ratio: 3: want less than 1.5
7: .name: "A": want a text that matches ^[a-z]+$
7: .name: "A": want at least 2 characters`,
		"mode: fast\n\n# more\nlimit: 101":                                  "7: .limit: 101: want at most 100",
		"mode: fast\nratio: 0.3":                                            "5: .ratio: 0.3: want a multiple of 0.25",
		"mode: fast\nname: abcdef":                                          `5: .name: "abcdef": want at most 5 characters`,
		"mode: fast\nlimti: 1":                                              `5: .limti: unknown field, want "limit"`,
		"mode: fast\ncolour: 1":                                             `5: .colour: unknown field, want one of limit, mode, name, paths, ratio, rules, size`,
		"mode: fast\nsize: big":                                             `5: .size: "big": want a text that matches ^[0-9]+Mi$, or type integer`,
		"mode: fast\nsize: -1":                                              `5: .size: -1: want type string, or at least 0`,
		"mode: fast\npaths: []":                                             `5: .paths: []: want at least 1 items`,
		"mode: fast\npaths:\n- /a\n- b\n- /a":                               "5: .paths: [\"/a\",\"b\",\"/a\"]: want each item once: [0] and [2] are equal\n7: .paths[1]: \"b\": want a text that matches ^/",
		"mode: fast\nrules:\n  x.y:\n    wieght: 2":                         `7: .rules["x.y"].wieght: unknown field, want "weight"`,
		"mode: fast\nrules:\n  x:\n    version: 2":                          `7: .rules.x.version: 2: want 1`,
		"mode: fast\nrules: {\n  B: {}\n  }":                                `6: .rules.B: name of a field: want a text that matches ^[a-z.]+$`,
		"rules: {a: {}, B: {}}\nmode: fast\nlimit: 1\nsize: 1\npaths: [/a]": `4: .rules.B: name of a field: want a text that matches ^[a-z.]+$`,
		"mode: fast\nrules:\n  x: {not: {not: {a: 1}}}":                     `6: .rules.x.not.not.a: unknown field, want one of not, version, weight`,
		"mode: fast\nrules:\n  x: {weight: null}":                           `6: .rules.x.weight: null: want type integer`,
		"mode: fast\nname: \"a\\e[31m\"":                                    `5: .name: "a\u001b[31m": want a text that matches ^[a-z]+$` + "\n" + `5: .name: "a\u001b[31m": want at most 5 characters`,
	} {
		text := "plugins:\n  acme:\n    config:\n      " + strings.ReplaceAll(document, "\n", "\n      ")
		config, at := place(t, text)
		wanted := ""
		for line := range strings.SplitSeq(want, "\n") {
			if n, rest, ok := strings.Cut(line, ": ."); ok {
				wanted += fmt.Sprintf("/etc/evictd.yaml:%s: plugins[\"acme\"].config.%s\n", n, rest)
			}
		}
		got := ""
		if err := s.Check(config, at); err != nil {
			got = err.Error() + "\n"
		}
		if got != wanted {
			t.Errorf("%s\ngot  %swant %s", text, got, wanted)
		}
	}
}

// The counters and what they need do not change the answers.
func TestAnswersAreThoseOfTheLibrary(t *testing.T) {
	for document, configs := range map[string][]string{
		`{"enum": [1, "a", {"b": []}]}`:                      {`1`, `1.0`, `2`, `"a"`, `{"b": []}`, `{}`},
		`{"const": {"a": 1}, "allOf": [{"type": "object"}]}`: {`{"a": 1}`, `{"a": 2}`, `1`},
		`{"$ref": "#/$defs/no", "$defs": {"no": false}}`:     {`1`, `{}`},
		`{"properties": {"a": {}}, "anyOf": [{"properties": {"b": {"const": 1}}}], "unevaluatedProperties": false}`: {
			`{"a": 1, "b": 1}`, `{"b": 2}`, `{"c": 1}`,
		},
		`{"not": {"enum": [1]}, "if": {"const": 2}, "then": false}`:                      {`1`, `2`, `3`},
		`{"contains": {"const": 1}, "maxContains": 1, "unevaluatedItems": {"const": 2}}`: {`[1]`, `[1, 1]`, `[1, 2]`, `[1, 3]`, `[]`},
		`{"format": "ipv4", "contentEncoding": "base64"}`:                                {`"x"`},
	} {
		s, err := Compile([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		root, _ := jsonschema.UnmarshalJSON(strings.NewReader(document))
		c := jsonschema.NewCompiler()
		if err := c.AddResource(location, root); err != nil {
			t.Fatal(err)
		}
		plain := c.MustCompile(location)
		for _, config := range configs {
			value, _ := jsonschema.UnmarshalJSON(strings.NewReader(config))
			if got, want := s.Check([]byte(config), input.Place{}), plain.Validate(value); (got == nil) != (want == nil) {
				t.Errorf("%s by %s: %v, the library alone says %v", config, document, got, want)
			}
		}
	}
}

func TestPlaces(t *testing.T) {
	s, err := Compile([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	want := func(err error, text string) {
		t.Helper()
		if fmt.Sprint(err) != text {
			t.Errorf("got %v, want %s", err, text)
		}
	}
	want(s.Check(nil, input.Place{}), "mode: missing, want a value")
	want(s.Check([]byte(`[]`), input.Place{}), "[]: want type object")
	want(s.Check([]byte(`{"mode":`), input.Place{File: "a.yaml"}), "a.yaml: unexpected EOF")
	want(s.Check([]byte(`{"mode":1}`), input.Place{File: "a.yaml", Lines: input.FieldLines([]byte("# x\nmode: 1\n"), "")}), `a.yaml:2: mode: 1: want one of "fast", "slow"`)
	merged := "a: &a {mode: fast, limit: 0}\nplugins:\n  acme:\n    config:\n      <<: *a\n"
	want(s.Check([]byte(`{"mode":"fast","limit":0}`), input.Place{File: "a", Lines: input.FieldLines([]byte(merged), "plugins"), Pointer: "/plugins/acme/config"}), "a:4: limit: 0: want at least 1")
	aliased := "a: &a {mode: fast,\n  limit: 0}\nplugins:\n  acme:\n    config: *a\n"
	want(s.Check([]byte(`{"mode":"fast","limit":0}`), input.Place{File: "a", Lines: input.FieldLines([]byte(aliased), "plugins"), Pointer: "/plugins/acme/config"}), "a:2: limit: 0: want at least 1")
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(schema), []byte(`{"mode": 1, "rules": {"a": {"not": {}}}}`))
	f.Add([]byte(explode(5, "oneOf")), []byte(`{"a": [1, "x", null]}`))
	f.Add([]byte(chain(5)), []byte(`1`))
	f.Add([]byte(`true`), []byte(``))
	f.Add([]byte(`{"contains": {"minimum": 1}, "if": {"maxProperties": 1}, "then": false, "dependentRequired": {"a": ["b"]}, "unevaluatedItems": false}`), []byte(`{"a": [1]}`))
	f.Fuzz(func(t *testing.T, document, config []byte) {
		begin := time.Now()
		s, err := Compile(document)
		if err == nil {
			err = s.Check(config, input.Place{File: "f", Field: "c"})
		}
		if took := time.Since(begin); took > bounded {
			t.Errorf("took %v", took)
		}
		if err != nil && (err.Error() == "" || len(err.Error()) > 100_000) {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
