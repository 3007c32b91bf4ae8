package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the tests run with is what docs/install.md says.
func TestVersionsThatAreTested(t *testing.T) {
	makefile, install := read(t, filepath.Join(root, "Makefile")), read(t, filepath.Join(root, "docs/install.md"))
	for _, program := range []string{"containerd", "kubernetes"} {
		pinned := regexp.MustCompile(`(?m):= \$\(TOOLS\)/` + program + `-(v\S+)$`).FindStringSubmatch(makefile)
		if pinned == nil {
			t.Fatalf("the Makefile pins no %s", program)
		}
		if !strings.Contains(install, pinned[1]) {
			t.Errorf("docs/install.md does not say that %s %s is tested", program, pinned[1])
		}
	}
}
