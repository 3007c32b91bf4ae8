package input

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/testos"
)

func TestPluginConfigIsReadFromYAML(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	testos.WriteFile(t, path, "factor: 2 # twice\nskip: [a]\n", 0o600)
	pipe := path + ".pipe"
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := PluginConfig(pipe); err == nil || err.Error() != pipe+": is a pipe, want a regular file" {
		t.Errorf("a pipe, on which it hung: %v", err)
	}
	got, at, err := PluginConfig(path)
	if want := `{"factor":2,"skip":["a"]}`; err != nil || string(got) != want {
		t.Errorf("got %s, error %v, want %s", got, err, want)
	}
	if line := at.Line([]string{"skip", "0"}); line != 2 {
		t.Errorf("line %d, want 2", line)
	}
}

func TestPlacesAreShort(t *testing.T) {
	deep := "a: " + strings.Repeat("{b: ", 1000) + "1" + strings.Repeat("}", 1000) + "\n"
	if n := len(FieldLines([]byte(deep), "")); n != maxPlaceDepth+1 {
		t.Errorf("%d lines of deep fields, want %d", n, maxPlaceDepth+1)
	}
	lines := FieldLines([]byte("---\n# nothing\n---\na/b: &x\n  \"~\": 1\nc: *x\n1: {}"), "")
	for pointer, want := range map[string]int{Pointer("a/b"): 4, Pointer("a/b", "~"): 5, Pointer("c", "~"): 5, "/1": 7, "/none": 0} {
		if lines[pointer] != want {
			t.Errorf("%s is on line %d, want %d", pointer, lines[pointer], want)
		}
	}
}
