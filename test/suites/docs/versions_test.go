package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the tests run with is what README.md says.
func TestVersionsThatAreTested(t *testing.T) {
	makefile, readme := read(t, filepath.Join(root, "Makefile")), read(t, filepath.Join(root, "README.md"))
	for program, pin := range map[string]string{"containerd": `(?m):= \$\(TOOLS\)/containerd-(v\S+)$`, "kubernetes": `(?m)^K8S +\?= (v\S+)$`} {
		pinned := regexp.MustCompile(pin).FindStringSubmatch(makefile)
		if pinned == nil {
			t.Fatalf("the Makefile pins no %s", program)
		}
		if !strings.Contains(readme, pinned[1]) {
			t.Errorf("README.md does not say that %s %s is tested", program, pinned[1])
		}
	}
}
