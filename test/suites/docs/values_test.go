package docs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/evictd/evictd/test/harness/document"
)

// The README of the chart has each value with its comment and default.
func TestTheChartsREADMEHasItsValues(t *testing.T) {
	var values yaml.Node
	if err := yaml.Unmarshal([]byte(read(t, root+"/deploy/chart/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	rows := valueRows(t, "", values.Content[0])
	if len(rows) < 60 {
		t.Errorf("%d rows, want one of each value", len(rows))
	}
	document.Compare(t, root+"/deploy/chart/README.md", map[string]string{"values": "\n| value | default | what it does |\n|---|---|---|\n" + strings.Join(rows, "") + "\n"})
}

// valueRows returns a row for each value below a mapping that has a comment.
func valueRows(t *testing.T, prefix string, mapping *yaml.Node) (rows []string) {
	t.Helper()
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		var below []string
		if value.Kind == yaml.MappingNode {
			below = valueRows(t, name+".", value)
		}
		if key.HeadComment != "" {
			what := strings.ReplaceAll(strings.TrimPrefix(key.HeadComment, "# "), "\n# ", " ")
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", name, fallback(t, value, below), strings.ReplaceAll(what, "|", `\|`)))
		}
		rows = append(rows, below...)
	}
	return rows
}

// fallback returns a value as JSON, or nothing if rows below it have its parts.
func fallback(t *testing.T, value *yaml.Node, below []string) string {
	t.Helper()
	if len(below) > 0 {
		return ""
	}
	var v any
	if err := value.Decode(&v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return "`" + string(text) + "`"
}
