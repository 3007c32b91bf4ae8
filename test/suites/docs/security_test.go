package docs

import (
	"strings"
	"testing"
)

const security = root + "/docs/security.md"

// What a plugin can and cannot do is a table of claims, each with a test that is
// there.
func TestSecurityNamesItsTests(t *testing.T) {
	claims := 0
	for n, line := range lines(t, security) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		if last == "test" {
			continue
		}
		claims++
		tests := quoted.FindAllStringSubmatch(last, -1)
		if len(cells) != 2 || len(tests) == 0 {
			t.Errorf("line %d: want a claim and the tests that show it", n+1)
		}
		for _, m := range tests {
			parts := file.FindStringSubmatch(m[1])
			if parts == nil || !strings.HasPrefix(parts[2], "Test") {
				t.Errorf("line %d: %s is not a test", n+1, m[1])
			} else if err := declared(parts); err != nil {
				t.Errorf("line %d: %v", n+1, err)
			}
		}
	}
	if claims < 30 {
		t.Errorf("only %d claims were recognized: the tables have another form now", claims)
	}
}
