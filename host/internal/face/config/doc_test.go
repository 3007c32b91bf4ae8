package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/evictd/evictd/shared/testos"
)

const document = "../../../../docs/configuration.md"

// row is a line of a table in docs/configuration.md: field, flag (of the kubelet's fields only),
// default, when a change takes effect.
var row = regexp.MustCompile("(?m)^\\| `([A-Za-z0-9.<>]+)` \\| (?:(?:`--([a-z-]+)`|none) \\| )?([^|]*) \\| (reload|restart) \\|")

// flagRow is a line about a flag that is no field.
var flagRow = regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\|")

func TestDocumentation(t *testing.T) {
	text := testos.ReadFile(t, document)
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
	var want, restart []string
	defaults := Default()
	for prefix, table := range map[string][]field{
		"": tables[reflect.TypeFor[Config]()], "plugins.<name>.": tables[reflect.TypeFor[Plugin]()], "summary.": tables[reflect.TypeFor[Summary]()],
	} {
		for _, f := range table {
			want = append(want, prefix+f.name)
			if f.fixed || prefix == "summary." {
				restart = append(restart, prefix+f.name)
			}
			if !slices.Contains(fields, prefix+f.name) {
				t.Errorf("%s is not documented, the line begins with\n%s", f.name, line(prefix, f))
			}
			if got := given[prefix+f.name]; f.def != "" && got != f.def {
				t.Errorf("%s: the documented default is %q, want %q", f.name, got, f.def)
			} else if prefix == "" && f.def == "" {
				value := f.in(reflect.ValueOf(&defaults).Elem())
				isNone, scalar := got == "none" && value.IsZero(), value.CanInt() || value.Kind() == reflect.Bool
				if !isNone && (got == "none" && value.Kind() != reflect.Struct || scalar && got != fmt.Sprint(value)) {
					t.Errorf("%s: the documented default is %q, want %v", f.name, got, value)
				}
			}
		}
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

// A key that was renamed stayed in answers to questions of upstream. Their last column begins with keys, commands or links.
func TestAnswersNameKeysThatExist(t *testing.T) {
	names := string(testos.ReadFile(t, "../../../../plugins/disk/README.md"))
	for _, f := range tables[reflect.TypeFor[Config]()] {
		names += "`" + f.name + "`"
	}
	answer := regexp.MustCompile("(?m)^\\|.*\\| `(?:plugins.disk.config.)?([a-z]+[A-Z]\\w*)[^|]*\\|$")
	all := answer.FindAllStringSubmatch(string(testos.ReadFile(t, "../../../../docs/asked.md")), -1)
	for _, key := range all {
		if !strings.Contains(names, "`"+key[1]+"`") {
			t.Errorf("asked.md: %s is no key of evictd.yaml or of the disk plugin", key[1])
		}
	}
	if len(all) < 10 {
		t.Errorf("%d keys, want 10 or more", len(all))
	}
}

// line returns the beginning of a field's line.
func line(prefix string, f field) string {
	def, change := "none", "reload"
	if f.def != "" {
		def = "`" + f.def + "`"
	}
	if f.fixed {
		change = "restart"
	}
	return fmt.Sprintf("| `%s` | %s | %s |", prefix+f.name, def, change)
}

func TestEveryKeyOfTheKubeletIsDocumented(t *testing.T) {
	text := testos.ReadFile(t, document)
	_, section, _ := strings.Cut(string(text), "\n## The kubelet's file\n")
	section, _, _ = strings.Cut(section, "\n## ")
	keys := 0
	for _, f := range tables[reflect.TypeFor[Config]()] {
		if f.kubelet == "" {
			continue
		}
		if keys++; !strings.Contains(section, "`"+f.kubelet+"`") {
			t.Errorf("%s is not documented", f.kubelet)
		}
	}
	if keys < 16 {
		t.Errorf("%d fields have a key of the kubelet, want 16 or more", keys)
	}
}

func TestTheExampleIsRight(t *testing.T) {
	text := testos.ReadFile(t, document)
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
	for typ, table := range tables {
		for _, f := range table {
			levels := 1
			for of := f.typ; of.Kind() == reflect.Map; of = of.Elem() {
				levels++
			}
			if f.typ == reflect.TypeFor[[]string]() {
				levels = 2
			}
			if len(f.kind.wants) < levels || slices.Contains(f.kind.wants, "") {
				t.Errorf("%s.%s: its kind says %q of what is right, want %d texts", typ.Name(), f.name, f.kind.wants, levels)
				continue
			}
			if f.name == "" || strings.Contains(f.want(), "%!") || strings.HasSuffix(f.want(), `""`) {
				t.Errorf("%s.%s wants %q", typ.Name(), f.name, f.want())
			}
			at := reflect.New(f.typ).Elem()
			if want, ok := f.parse(at, f.def); f.def != "" && (!ok || f.check([]string{f.name}, at) != nil) {
				t.Errorf("%s.%s: the default %q is none, want %s", typ.Name(), f.name, f.def, want)
			}
		}
	}
}

func sorted(s []string) []string { slices.Sort(s); return s }
