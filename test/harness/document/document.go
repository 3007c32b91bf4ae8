// Package document keeps the generated parts of documents up to date.
package document

import (
	"os"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

// Compare fails if the parts of the document, between <!-- NAME --> and <!-- end of NAME -->, differ
// from the given ones. With EVICTD_WRITE_DOCS=1 it writes them instead.
func Compare(t *testing.T, path string, parts map[string]string) {
	t.Helper()
	text := testos.ReadFile(t, path)
	want := string(text)
	for name, part := range parts {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
		head, rest, ok := strings.Cut(want, begin)
		_, tail, ended := strings.Cut(rest, end)
		if !ok || !ended {
			t.Fatalf("%s has no lines %q and %q", path, begin, end)
		}
		want = head + begin + part + end + tail
	}
	if os.Getenv("EVICTD_WRITE_DOCS") != "" {
		testos.WriteFile(t, path, want, 0o644)
	} else if string(text) != want {
		t.Errorf("%s is not up to date: run this test with EVICTD_WRITE_DOCS=1", path)
	}
}
