package scaffold

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

const (
	// SDK is the path of the module that contains the SDK.
	SDK    = evictd + "/sdk"
	shared = evictd + "/shared"
	evictd = "github.com/evictd/evictd"
)

// A Kind is the kind of plugin to start from, which selects the templates.
type Kind string

// The kinds.
const (
	// Rank orders pods and leaves everything else to the built-in plugins.
	Rank Kind = "rank"
	// Disk is the built-in disk plugin with an additional reclaim step.
	Disk Kind = "disk"
	// Signal observes a custom signal and ranks pods for it.
	Signal Kind = "signal"
	// Python orders pods, and is no Go module.
	Python Kind = "python"
)

// Options describe the module to write.
type Options struct {
	// Name is the name of the plugin and of its executable, by which evictd knows it.
	Name string
	Kind Kind
	// Module is the path of the new module, example.com/NAME if empty. Names in the module
	// use its domain.
	Module string
	// Dir is the directory to create, NAME in the working directory if empty.
	Dir string
	// SDKDir is a checkout of evictd to build with; empty means the published module.
	SDKDir string
	// Version is the version of the evictd that writes the module.
	Version string
}

// maxName keeps paths of sockets and cgroups short, which contain the name.
const maxName = 63

var (
	nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	// releaseForm matches neither the output of git describe for a commit after a release
	// ("v1.2.3-4-g0123abc") nor a pseudo-version: such a commit may not have been pushed.
	releaseForm = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)[.0-9]*)?$`)
)

// builtins are the file names of evictd's own plugins.
var builtins = []string{"memory", "disk", "pid"}

// Validate returns all errors in the options themselves. It does not look at the files on disk.
func (o Options) Validate() error {
	var errs []error
	switch {
	case !nameForm.MatchString(o.Name) || len(o.Name) > maxName:
		errs = append(errs, fmt.Errorf("name %.100q: want the file name of a plugin: at most %d lower-case letters, digits and '-', such as \"spot-first\"", o.Name, maxName))
	case slices.Contains(builtins, o.Name):
		errs = append(errs, fmt.Errorf("name %q: is that of a built-in plugin, whose file it would replace, want another", o.Name))
	}
	if !slices.Contains([]Kind{Rank, Disk, Signal, Python}, o.Kind) {
		errs = append(errs, errors.New("kind: want one of --rank, --disk, --signal and --python"))
	}
	if o.Kind == Python && (o.Module != "" || o.SDKDir != "") {
		errs = append(errs, errors.New("--module, --sdk: are for a plugin in Go, want neither with --python"))
	}
	if o.Module != "" && !validModule(o.Module) {
		errs = append(errs, fmt.Errorf("--module %.200q: want the path of a Go module of your own, such as \"example.com/%s\"", o.Module, o.Name))
	}
	if o.Kind != Python && o.SDKDir == "" && !releaseForm.MatchString(o.Version) {
		errs = append(errs, fmt.Errorf("this evictd is no release (version %q), so that Go cannot fetch its SDK: want --sdk with the directory of an evictd checkout", o.Version))
	}
	return errors.Join(errs...)
}

func validModule(path string) bool {
	const most = 200
	hidden := strings.Contains("/"+path, "/.")
	return module.CheckImportPath(path) == nil && !hidden && len(path) <= most && path != evictd && !strings.HasPrefix(path, evictd+"/")
}
