package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

const document = "../../../docs/configuration.md"

// row is a line of a table in docs/configuration.md: field, flag, default, when
// a change takes effect.
var row = regexp.MustCompile("(?m)^\\| `([A-Za-z0-9.<>]+)` \\| (?:`--([a-z-]+)`|none) \\| ([^|]*) \\| (reload|restart) \\|")

// flagRow is a line about a flag that is no field.
var flagRow = regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\|")

func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var fields, flags, fixed []string
	given := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		fields = append(fields, m[1])
		given[m[1]] = strings.Trim(m[3], "`")
		if m[2] != "" {
			flags = append(flags, m[2])
		}
		if m[4] == "restart" {
			fixed = append(fixed, m[1])
		}
	}
	for _, m := range flagRow.FindAllStringSubmatch(string(text), -1) {
		flags = append(flags, m[1])
	}
	want := keysOf(reflect.TypeFor[Config]())
	for _, key := range keysOf(reflect.TypeFor[Plugin]()) {
		want = append(want, "plugins.<name>."+key)
	}
	for _, key := range keysOf(reflect.TypeFor[Summary]()) {
		want = append(want, "summary."+key)
	}
	if diff := cmp.Diff(sorted(want), sorted(fields)); diff != "" {
		t.Errorf("documented fields (-struct +documented):\n%s", diff)
	}

	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	AddFlags(fs)
	var defined []string
	fs.VisitAll(func(f *pflag.Flag) {
		defined = append(defined, f.Name)
	})
	if diff := cmp.Diff(sorted(defined), sorted(flags)); diff != "" {
		t.Errorf("documented flags (-defined +documented):\n%s", diff)
	}
	var c Config
	restart := []string{"featureGates", "summary"}
	for _, key := range keysOf(reflect.TypeFor[Summary]()) {
		restart = append(restart, "summary."+key)
	}
	for _, f := range c.fixed() {
		restart = append(restart, f.name)
	}
	if diff := cmp.Diff(sorted(restart), sorted(fixed)); diff != "" {
		t.Errorf("documented as needing a restart (-code +documented):\n%s", diff)
	}
	fs.VisitAll(func(f *pflag.Flag) {
		for field, value := range given {
			if kebab(field) == f.Name && f.DefValue != "" && f.DefValue != value {
				t.Errorf("%s: the documented default is %q, want %q", field, value, f.DefValue)
			}
		}
	})
}

func TestEveryKeyOfTheKubeletIsDocumented(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The kubelet's file\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for key := range kubeletFields {
		if !strings.Contains(section, "`"+key+"`") {
			t.Errorf("%s is not documented", key)
		}
	}
}

func TestTheExampleIsRight(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```yaml\n")
	example, _, ok := strings.Cut(example, "```")
	if !ok {
		t.Fatal("no example")
	}
	c, err := Load(write(t, example))
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(); len(w) > 0 {
		t.Errorf("the example warns: %q", w)
	}
}

func TestEveryFieldSaysWhatItWants(t *testing.T) {
	for _, key := range keysOf(reflect.TypeFor[Config]()) {
		if forms[key] == "" {
			t.Errorf("forms[%q] is missing: an error of this field would not say what is right", key)
		}
		if depths[key] > 1 && entryForms[key] == "" && key != "summary" {
			t.Errorf("entryForms[%q] is missing", key)
		}
	}
	for _, key := range keysOf(reflect.TypeFor[Plugin]()) {
		if pluginForms[key] == "" && key != "config" {
			t.Errorf("pluginForms[%q] is missing", key)
		}
	}
	for _, key := range keysOf(reflect.TypeFor[Summary]()) {
		if summaryForms[key] == "" {
			t.Errorf("summaryForms[%q] is missing", key)
		}
	}
}

func sorted(s []string) []string { slices.Sort(s); return s }
