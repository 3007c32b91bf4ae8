package packages

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestTheBillsOfMaterialsHaveEachModule(t *testing.T) {
	for _, program := range []string{"evictd", "evictctl"} {
		t.Run(program, func(t *testing.T) { isWhole(t, program) })
	}
}

func isWhole(t *testing.T, program string) {
	t.Helper()
	raw, err := os.ReadFile(dist(t, program+"_*_amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(raw, &bom); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, c := range bom.Components {
		listed[c.Name+" "+c.Version] = true
		if strings.Contains(c.Purl, "./") || strings.Contains(c.Purl, "devel") {
			t.Errorf("%s: no one can look it up by %q", c.Name, c.Purl)
		}
	}
	used := map[string]bool{}
	for line := range strings.Lines(run(t, ".", "go", "version", "-m", "../../bin/"+program)) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 3 && f[0] == "dep" && strings.HasPrefix(f[1], "github.com/evictd/evictd/"):
			used[f[1]+" "+bom.Metadata.Component.Version] = true
		case len(f) >= 3 && f[0] == "dep":
			used[f[1]+" "+f[2]] = true
		case len(f) == 2 && strings.HasPrefix(f[1], "go1"):
			used["std "+f[1]] = true
		}
	}
	if len(used) < 20 {
		t.Errorf("go version -m names %d modules", len(used))
	}
	for m := range used {
		if !listed[m] {
			t.Errorf("%s is in %s and not in its bill", m, program)
		}
	}
	for m := range listed {
		if !used[m] {
			t.Errorf("%s is in the bill of %s and not in it", m, program)
		}
	}
}
