package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const github = root + "/.github/"

var pinned = regexp.MustCompile(`^[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

// A tag of an action can be moved to another commit, a hash cannot.
func TestActionsArePinnedByHash(t *testing.T) {
	workflows, err := filepath.Glob(github + "workflows/*.yml")
	if err != nil || len(workflows) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	found := 0
	for _, workflow := range workflows {
		for n, line := range lines(t, workflow) {
			if _, action, uses := strings.Cut(line, "uses: "); uses {
				found++
				if !pinned.MatchString(action) {
					t.Errorf("%s:%d: %s, want OWNER/NAME@HASH # VERSION", workflow, n+1, action)
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d actions were recognized", found)
	}
}

// A module that Dependabot has no entry for keeps its dependencies for ever.
func TestDependabotHasEachModule(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string   `yaml:"package-ecosystem"`
			Directories []string `yaml:"directories"`
		} `yaml:"updates"`
	}
	if err := yaml.Unmarshal([]byte(read(t, github+"dependabot.yml")), &config); err != nil {
		t.Fatal(err)
	}
	var listed, modules []string
	for _, update := range config.Updates {
		if update.Ecosystem == "gomod" {
			listed = append(listed, update.Directories...)
		}
	}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist", "node_modules"}, entry.Name()):
			return fs.SkipDir
		case entry.Name() == "go.mod":
			modules = append(modules, filepath.Join("/", filepath.Dir(path)))
		}
		return nil
	})
	slices.Sort(listed)
	slices.Sort(modules)
	if err != nil || !slices.Equal(listed, modules) {
		t.Errorf("dependabot.yml has %q, want each directory with a go.mod once: %q, %v", listed, modules, err)
	}
}

// GitHub shows no form for a file that it cannot read, without a message.
func TestIssueFormsAreForms(t *testing.T) {
	forms, err := filepath.Glob(github + "ISSUE_TEMPLATE/[^c]*.yml") // not config.yml
	if err != nil || len(forms) < 3 {
		t.Fatalf("forms: %q, %v", forms, err)
	}
	for _, path := range forms {
		var form struct {
			Name, Description string
			Labels            []string
			Body              []struct {
				Type, ID    string
				Attributes  struct{ Label, Description, Value, Render string }
				Validations struct{ Required bool }
			}
		}
		decoder := yaml.NewDecoder(strings.NewReader(read(t, path)))
		decoder.KnownFields(true)
		if err := decoder.Decode(&form); err != nil || form.Name == "" || form.Description == "" || len(form.Body) < 3 {
			t.Errorf("%s is no form: %+v, %v", path, form, err)
		}
		ids := map[string]bool{}
		for _, field := range form.Body {
			markdown := field.Type == "markdown" && field.Attributes.Value != ""
			if !markdown && (field.Type != "textarea" || field.Attributes.Label == "" || field.ID == "" || ids[field.ID]) {
				t.Errorf("%s: %+v is no field with an id of its own", path, field)
			}
			ids[field.ID] = true
		}
	}
}
