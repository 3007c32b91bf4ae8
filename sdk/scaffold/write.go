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

// values are the data of the templates.
type values struct {
	Options
	// SDK is the required module, in version SDKVersion. Checkout, if set, is a directory in its place.
	SDK, SDKVersion string
	Checkout        checkout
	Go              string
}

// Domain returns the domain for names that are visible to others.
func (v values) Domain() string { return domain(v.Module) }

// Placeholder returns the domain that is used if the author has given none.
func (v values) Placeholder() string { return placeholder }

// Quoted returns the checkout's directory, quoted for go.mod.
func (v values) Quoted() string { return modfile.AutoQuote(v.Checkout.Dir) }

// expand returns the content of a module's files by their names.
func expand(o Options) (map[string][]byte, error) {
	if o.Kind == Python {
		return expandPython(o)
	}
	o.Module = cmp.Or(o.Module, placeholder+"/"+o.Name)
	v := values{Options: o, SDK: SDK, SDKVersion: o.Version, Go: goVersion}
	files := map[string][]byte{}
	if o.SDKDir != "" {
		var err error
		if v.Checkout, err = readCheckout(o.SDKDir); err != nil {
			return nil, fmt.Errorf("--sdk: %w", err)
		}
		v.Go = cmp.Or(v.Checkout.Go, v.Go)
		files["go.sum"] = v.Checkout.Sum
	}
	if !releaseForm.MatchString(o.Version) {
		v.SDKVersion = "v0.0.0" // a replaced module needs some version
	}
	return files, errors.Join(v.expand(files, "", "templates/module/*"+suffix, "templates/"+string(o.Kind)+"/*"+suffix), v.chart(files))
}

// chart adds the files of a Helm chart that runs the plugin in pods of its own.
func (v values) chart(files map[string][]byte) error {
	return errors.Join(v.expand(files, "chart/", "templates/chart/*"+suffix), v.expand(files, "chart/templates/", "templates/chart/templates/*"+suffix))
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
	v := values{Options: o}
	return files, errors.Join(v.expand(files, "", "templates/python/*"+suffix), v.chart(files))
}

// expand adds the files of templates to a directory, "" or one with a slash.
func (v values) expand(files map[string][]byte, dir string, patterns ...string) error {
	// The usual delimiters, two braces, occur in Go code.
	all, err := template.New("").Delims("[[", "]]").ParseFS(templates, patterns...)
	if err != nil {
		return fmt.Errorf("read templates: %w", err)
	}
	for _, t := range all.Templates() {
		name, ok := strings.CutSuffix(t.Name(), suffix)
		if !ok {
			continue // the empty root template
		}
		var content bytes.Buffer
		if err := t.Execute(&content, v); err != nil {
			return fmt.Errorf("expand %s: %w", name, err)
		}
		files[dir+hidden(name)] = content.Bytes()
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
