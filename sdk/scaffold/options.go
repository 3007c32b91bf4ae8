package scaffold

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

// SDK is the module that a plugin is written with.
const SDK = "github.com/evictd/evictd"

// A Kind names the template that a plugin starts from.
type Kind string

// The kinds.
const (
	// Rank orders pods and has all else done by the built-in plugins.
	Rank Kind = "rank"
	// Disk is the built-in disk plugin with an own step of reclaim.
	Disk Kind = "disk"
	// Signal observes a custom signal and ranks under it.
	Signal Kind = "signal"
)

// Options say what is written where.
type Options struct {
	// Name is the plugin's, and of its executable: what evictd knows it by.
	Name string
	Kind Kind
	// Module is the path of the new module, example.com/NAME if empty. Its domain is
	// that of the names in it.
	Module string
	// Dir is the directory that is made, NAME in the working directory if empty.
	Dir string
	// SDKDir is a checkout of evictd to build with; empty for the published
	// module.
	SDKDir string
	// Version is the version of evictd that writes.
	Version string
}

// maxName keeps the paths of sockets and cgroups that contain the name short.
const maxName = 63

var (
	nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	// What git describe makes of a commit after a release ("v1.2.3-4-g0123abc") is
	// none, nor is a pseudo-version: it may not have been pushed.
	releaseForm = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)[.0-9]*)?$`)
)

// builtins are the files of evictd's own plugins.
var builtins = []string{"memory", "disk", "pid"}

// Validate returns all that is wrong with the options, none of which has to do with
// what is on disk.
func (o Options) Validate() error {
	var errs []error
	switch {
	case !nameForm.MatchString(o.Name) || len(o.Name) > maxName:
		errs = append(errs, fmt.Errorf("name %.100q: want the file name of a plugin: at most %d lower-case letters, digits and '-', such as \"spot-first\"", o.Name, maxName))
	case slices.Contains(builtins, o.Name):
		errs = append(errs, fmt.Errorf("name %q: is that of a built-in plugin, whose file it would replace, want another", o.Name))
	}
	if o.Kind != Rank && o.Kind != Disk && o.Kind != Signal {
		errs = append(errs, errors.New("kind: want one of --rank, --disk and --signal"))
	}
	if o.Module != "" && !validModule(o.Module) {
		errs = append(errs, fmt.Errorf("--module %.200q: want the path of a Go module of your own, such as \"example.com/%s\"", o.Module, o.Name))
	}
	if o.SDKDir == "" && !releaseForm.MatchString(o.Version) {
		errs = append(errs, fmt.Errorf("this evictd is no release (version %q), so that Go cannot fetch its SDK: want --sdk with the directory of an evictd checkout", o.Version))
	}
	return errors.Join(errs...)
}

func validModule(path string) bool {
	const most = 200
	hidden := strings.Contains("/"+path, "/.")
	return module.CheckImportPath(path) == nil && !hidden && len(path) <= most && path != SDK && !strings.HasPrefix(path, SDK+"/")
}
