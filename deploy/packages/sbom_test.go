package packages

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func TestTheBillOfMaterialsHasEachModuleOfTheBinaries(t *testing.T) {
	raw, err := os.ReadFile(dist(t, "evictd_*_amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := json.Unmarshal(raw, &bom); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, c := range *bom.Components {
		listed[c.Name+" "+c.Version] = true
	}
	used := map[string]bool{}
	for _, binary := range []string{"evictd", "builtin"} {
		for line := range strings.Lines(run(t, ".", "go", "version", "-m", filepath.Join("../../bin", binary))) {
			f := strings.Fields(line)
			switch {
			case len(f) >= 3 && f[0] == "dep":
				used[f[1]+" "+f[2]] = true
			case len(f) == 2 && strings.HasPrefix(f[1], "go1"):
				used["std "+strings.TrimPrefix(f[1], "go")] = true
			}
		}
	}
	if len(used) < 20 {
		t.Errorf("go version -m names %d modules", len(used))
	}
	for m := range used {
		if !listed[m] {
			t.Errorf("%s is in a binary and not in the bill", m)
		}
	}
	for m := range listed {
		if !used[m] {
			t.Errorf("%s is in the bill and in no binary", m)
		}
	}
}
