package host

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Each field of /status stands in the row of docs/operations.md that begins with
// its name, or with that of the field that it is in.
func TestEveryFieldOfTheStatusIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "**`/status`**")
	table, _, _ = strings.Cut(table, "**`/metrics`**")
	for _, f := range jsonFields(reflect.TypeFor[Status]()) {
		row := ""
		for line := range strings.Lines(table) {
			if cells := strings.Split(line, "|"); len(cells) > 2 && strings.Contains(cells[1], "`"+f.name+"`") {
				row = line
			}
		}
		if row == "" {
			t.Errorf("%s has no row", f.name)
		}
		for _, name := range f.inside() {
			if !strings.Contains(row, "`"+name+"`") {
				t.Errorf("the row of %s does not name %s", f.name, name)
			}
		}
	}
}

type jsonField struct {
	name string
	of   reflect.Type
}

// jsonFields returns the fields of a struct as JSON has them, those of embedded structs
// included.
func jsonFields(s reflect.Type) []jsonField {
	var all []jsonField
	for f := range s.Fields() {
		if f.Anonymous {
			all = append(all, jsonFields(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		all = append(all, jsonField{name, f.Type})
	}
	return all
}

// inside returns the names of the fields of structs in f, however deep.
func (f jsonField) inside() []string {
	of := f.of
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() {
		return nil
	}
	var names []string
	for _, inner := range jsonFields(of) {
		names = append(append(names, inner.name), inner.inside()...)
	}
	return names
}
