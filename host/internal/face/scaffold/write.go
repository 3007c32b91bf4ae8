package scaffold

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"golang.org/x/mod/modfile"

	pythonrank "github.com/evictd/evictd/sdk/examples/python-rank"
	"github.com/evictd/evictd/shared/proto"
)

// The templates of all kinds, and those of one. Their names are those of the files,
// with .tmpl so that they are not taken for part of this module.
//
//go:embed templates
var templates embed.FS

const suffix = ".tmpl"

// A Module describes the written files.
type Module struct {
	// Dir is the directory, Files are the names of the files in it, sorted.
	Dir   string
	Files []string
	// Tidy: go mod tidy must be run before it builds.
	Tidy bool
}

// Write creates the directory and writes the module into it. The directory must not exist; on an
// error Write removes it again.
func Write(o Options) (Module, error) {
	if err := o.Validate(); err != nil {
		return Module{}, err
	}
	files, err := expand(o)
	if err != nil {
		return Module{}, err
	}
	m := Module{Dir: cmp.Or(o.Dir, o.Name), Tidy: o.Kind != Python && o.SDKDir == ""}
	if err := writeFiles(m.Dir, files); err != nil {
		return Module{}, err
	}
	m.Files = slices.Sorted(maps.Keys(files))
	return m, nil
}

// writeFiles creates the directory with the files. On an error it leaves nothing behind.
func writeFiles(dir string, files map[string][]byte) error {
	switch err := os.Mkdir(dir, 0o755); {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s exists already, want a directory that is to be made", dir)
	case err != nil:
		return err
	}
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644)); err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
	}
	return nil
}

// values has what templates name.
type values struct {
	Name, Module string
	Kind         Kind
	// Domain is for names that others see. Placeholder: it is not a domain of the author.
	Domain      string
	Placeholder bool

	Go, SDKVersion string
	// Checkout: the module builds with the SDK in SDKDir and SharedDir, and Requires what the SDK does.
	Checkout          bool
	SDKDir, SharedDir string
	Requires          []string
}

func newValues(o Options, c checkout) values {
	host := domain(o.Module)
	return values{
		Name: o.Name, Module: o.Module, Kind: o.Kind, Domain: host, Placeholder: host == placeholder,
		Go: cmp.Or(c.Go, goVersion), SDKVersion: cmp.Or(c.Version, o.Version),
		Checkout: o.SDKDir != "", SDKDir: modfile.AutoQuote(filepath.Join(c.Dir, "sdk")), SharedDir: modfile.AutoQuote(filepath.Join(c.Dir, "shared")), Requires: c.Requires,
	}
}

// expand returns the content of a module's files by their names.
func expand(o Options) (map[string][]byte, error) {
	if o.Kind == Python {
		return expandPython(o)
	}
	o.Module = cmp.Or(o.Module, placeholder+"/"+o.Name)
	files := map[string][]byte{}
	var c checkout
	if o.SDKDir != "" {
		var err error
		if c, err = readCheckout(o.SDKDir); err != nil {
			return nil, fmt.Errorf("--sdk: %w", err)
		}
		files["go.sum"] = c.Sum
	}
	return files, newValues(o, c).expand(files, "module", string(o.Kind))
}

// expandPython returns the content of the files of a plugin in Python: the example's under another
// name, the descriptor of the protocol, and the templates'.
func expandPython(o Options) (map[string][]byte, error) {
	files := map[string][]byte{"descriptor.binpb": proto.Descriptor}
	example, err := pythonrank.Files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, f := range example {
		content, err := pythonrank.Files.ReadFile(f.Name())
		if err != nil {
			return nil, err
		}
		files[f.Name()] = bytes.ReplaceAll(content, []byte("python-rank"), []byte(o.Name))
	}
	return files, newValues(o, checkout{}).expand(files, "python")
}

// expand adds the files of the templates in directories, and of a Helm chart that runs the plugin in pods of its own.
func (v values) expand(files map[string][]byte, dirs ...string) error {
	for _, dir := range append(dirs, "chart", "chart/templates") {
		all, err := fs.Glob(templates, "templates/"+dir+"/*"+suffix)
		if err != nil {
			return err
		}
		for _, file := range all {
			// A chart is a template itself, with {{ and }}.
			t, err := template.New(path.Base(file)).Delims("[[", "]]").ParseFS(templates, file)
			if err != nil {
				return err
			}
			var content bytes.Buffer
			if err := t.Execute(&content, v); err != nil {
				return err
			}
			name := hidden(strings.TrimSuffix(path.Base(file), suffix))
			if strings.HasPrefix(dir, "chart") {
				name = dir + "/" + name
			}
			files[name] = content.Bytes()
		}
	}
	return nil
}

// hidden returns the name of the file for a template. Templates must not begin with a dot, since
// such files are not embedded.
func hidden(name string) string {
	if path.Ext(name) == "" && strings.HasPrefix(name, "git") {
		return "." + name
	}
	return name
}
