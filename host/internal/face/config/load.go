package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/ground/printable"
)

// graceField is the field that the kubelet's soft thresholds require.
const graceField = "evictionSoftGracePeriod"

// maxFileBytes bounds the size of a configuration file, generously.
const maxFileBytes = 1 << 20

// Load reads evictd's own file, without flags. An empty name returns the defaults. The error joins
// all problems, one per line.
func Load(file string) (Config, error) { return (&Flags{file: source{text: file}}).Load() }

// Load reads the files named by --kubelet-config, --kubelet-config-dir and --config, if set, and
// applies the flags over them. Errors about flags name the flag, others the file.
func (f *Flags) Load() (Config, error) { return f.load(nil) }

// LoadDaemon is like Load, but for a program that has no pods, summary or filesystem layout to
// contribute.
func (f *Flags) LoadDaemon() (Config, error) { return f.load(daemonProblems) }

// LoadDaemonText is like LoadDaemon with a text in place of the file of --config. Errors name it
// name.
func (f *Flags) LoadDaemonText(name, text string) (Config, error) {
	with := *f
	with.file.text, with.text = name, []byte(text)
	return with.LoadDaemon()
}

// load also makes the checks in also, which not every user of a Config must pass.
func (f *Flags) load(also func(*Config) []error) (Config, error) {
	c := blank()
	errs := slices.Clone(f.errs)
	each(nil, reflect.ValueOf(&f.only).Elem(), func(path []string, row field, at reflect.Value) {
		if f.given.keys[row.name] != "" {
			for _, err := range row.check(path, at) {
				errs = append(errs, f.given.named(err))
			}
		}
	})
	ls, found, unread := f.readFiles(&c)
	errs = append(errs, found...)
	if unread {
		return Config{}, report(errs)
	}
	mergeHard(&c)
	f.apply(&c)
	c.DryRun = c.DryRun || c.Observe
	ls = append(ls, &f.given)
	found = append(split(complete(&c, os.Hostname)), problems(&c)...)
	if also != nil {
		found = append(found, also(&c)...)
	}
	for _, err := range found {
		if !ls.refused(err) {
			errs = append(errs, ls.blame(err))
		}
	}
	if len(errs) > 0 {
		return Config{}, report(errs)
	}
	return c, nil
}

// readFiles applies the files to c. It returns a layer per file, the problems of single files, and
// whether one could not be read.
func (f *Flags) readFiles(c *Config) (ls layers, errs []error, unread bool) {
	_, ls, errs, err := kubeletFiles{file: f.kubeletFile.text, dir: f.kubeletDir.text, flag: "--kubelet-config"}.lay(c)
	if err != nil {
		errs, unread = append(errs, err), true
	}
	if f.file.text == "" {
		return ls, errs, unread
	}
	data := f.text
	if data == nil {
		if data, err = input.ReadFileSoon(f.file.text, maxFileBytes); err != nil {
			return ls, append(errs, fmt.Errorf("--config: %s: %w", f.file.text, err)), true
		}
	}
	l := &layer{file: f.file.text, keys: map[string]string{}}
	for _, err := range decode(c, l, data) {
		errs = append(errs, l.named(err))
	}
	if errs == nil {
		placePlugins(c, f.file.text, data)
	}
	return append(ls, l), errs, unread
}

// placePlugins notes where the plugins' configurations stand in the file.
func placePlugins(c *Config, file string, data []byte) {
	lines := input.FieldLines(data, "plugins")
	for name, p := range c.Plugins {
		p.Place = input.Place{
			File: file, Field: strings.Join(steps([]string{"plugins", name, "config"}), ""),
			Lines: lines, Pointer: input.Pointer("plugins", name, "config"),
		}
		c.Plugins[name] = p
	}
}

// A layer is one source of a configuration: a file, or the flags.
type layer struct {
	// file is its name, "" for the flags.
	file string
	// keys maps the fields that it sets to the keys used for them.
	keys map[string]string
	// refused holds the paths that were reported and skipped.
	refused [][]string
	// merged holds the fields of a file whose mappings are merged key by key.
	merged tree
}

// has reports whether the layer sets the part of field that an error is about, of a mapping the
// entry that below leads to.
func (l *layer) has(field string, below []string) bool {
	merged, given := l.merged[field]
	if l.keys[field] == "" && !given {
		return false
	}
	entries, isMapping := merged.(tree)
	if len(below) == 0 || !isMapping {
		return true
	}
	key, _ := strconv.Unquote(strings.Trim(below[0], "[]"))
	_, given = entries[key]
	return given
}

// named returns err with the layer's name for its field.
func (l *layer) named(err error) error {
	of, ok := errors.AsType[printable.FieldError](err)
	if ok {
		of.Path = slices.Clone(of.Path)
		if of.Path[0] = cmp.Or(l.keys[of.Path[0]], of.Path[0]); l.file == "" {
			of.Path[0] = "--" + kebab(of.Path[0])
		}
		err = of
	}
	if l.file == "" {
		return err
	}
	return fmt.Errorf("%s: %w", l.file, err)
}

// layers are in ascending order of precedence.
type layers []*layer

// refused reports whether err is about a grace period that was already reported as invalid:
// reporting it as missing would mislead.
func (ls layers) refused(err error) bool {
	of, ok := errors.AsType[printable.FieldError](err)
	return ok && of.Path[0] == graceField && slices.ContainsFunc(ls, func(l *layer) bool {
		return slices.ContainsFunc(l.refused, func(path []string) bool {
			return len(path) <= len(of.Path) && slices.Equal(path, of.Path[:len(path)])
		})
	})
}

// blame returns err with the field's name in the layer that set it; a missing grace period is
// attributed to the layer that set the threshold. A field that no layer set is attributed to the
// last file.
func (ls layers) blame(err error) error {
	if of, ok := errors.AsType[printable.FieldError](err); ok {
		fields := []string{of.Path[0]}
		if fields[0] == graceField {
			fields = append(fields, "evictionSoft")
		}
		for _, field := range fields {
			for _, l := range slices.Backward(ls) {
				if l.has(field, of.Path[1:]) {
					return l.named(err)
				}
			}
		}
	}
	for _, l := range slices.Backward(ls) {
		if l.file != "" {
			return fmt.Errorf("%s: %w", l.file, err)
		}
	}
	return err
}

// report joins errs, limited to a readable number and length. Texts from files are escaped for the
// terminal.
func report(errs []error) error { return printable.ClipAll(errs, maxErrors) }

// split splits a joined error. An error that wraps several and has its own text stays whole.
func split(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, split(e)...)
	}
	return all
}
