package packages

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestTheBillOfMaterialsHasEachModuleOfEvictd(t *testing.T) {
	raw, err := os.ReadFile(dist(t, "evictd_*_amd64.cdx.json"))
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
	for line := range strings.Lines(run(t, ".", "go", "version", "-m", "../../bin/evictd")) {
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
			t.Errorf("%s is in evictd and not in its bill", m)
		}
	}
	for m := range listed {
		if !used[m] {
			t.Errorf("%s is in the bill of evictd and not in it", m)
		}
	}
}
