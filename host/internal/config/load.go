package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/input"
)

// graceField is the field that others of the kubelet cannot be without.
const graceField = "evictionSoftGracePeriod"

// maxFileBytes is far more than a configuration needs.
const maxFileBytes = 1 << 20

// Load reads evictd's own file, without flags. An empty name gives the defaults.
// The error joins all that is wrong, one line each.
func Load(file string) (Config, error) { return (&Flags{file: source{text: file}}).Load() }

// Load reads the files that --kubelet-config, --kubelet-config-dir and --config name, if they
// do, and lays the flags over them. What a flag gave is reported by the name of the flag, the
// rest by that of the file.
func (f *Flags) Load() (Config, error) { return f.load(nil) }

// LoadDaemon does as Load for a program that has no pods, summary or knowledge of
// filesystems of its own.
func (f *Flags) LoadDaemon() (Config, error) { return f.load(daemonProblems) }

// load makes also checks that not every user of a Config needs to pass.
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

// readFiles lays the files over c. It returns a layer for each, what is wrong with single
// ones, and whether one could not be read.
func (f *Flags) readFiles(c *Config) (ls layers, errs []error, unread bool) {
	_, ls, errs, err := kubeletFiles{file: f.kubeletFile.text, dir: f.kubeletDir.text, flag: "--kubelet-config"}.lay(c)
	if err != nil {
		errs, unread = append(errs, err), true
	}
	if f.file.text == "" {
		return ls, errs, unread
	}
	data, err := input.ReadFileSoon(f.file.text, maxFileBytes)
	if err != nil {
		return ls, append(errs, fmt.Errorf("--config: %s: %w", f.file.text, err)), true
	}
	l := &layer{file: f.file.text, keys: map[string]string{}}
	for _, err := range decode(c, l, data) {
		errs = append(errs, l.named(err))
	}
	return append(ls, l), errs, unread
}

// A layer is one of what a configuration is made of: a file, or the flags.
type layer struct {
	// file is its name, "" for the flags.
	file string
	// keys are the fields that it gives, with the keys by which it does.
	keys map[string]string
	// refused are the paths of what was reported and left out.
	refused []string
	// merged has the fields of a file whose mappings are laid over those of others key by key.
	merged object
}

// has reports whether the layer gives what err is about in field.
func (l *layer) has(field string, err error) bool {
	if l.keys[field] == "" && l.merged[field] == nil {
		return false
	}
	var entries object
	_, rest, isEntry := strings.Cut(err.Error(), `["`)
	entry, _, _ := strings.Cut(rest, `"]: `)
	if !isEntry || json.Unmarshal(l.merged[field], &entries) != nil || entries == nil {
		return true
	}
	_, ok := entries[entry]
	return ok
}

// named returns err with the layer's name of its field.
func (l *layer) named(err error) error {
	field := topField(err)
	rest := strings.TrimPrefix(err.Error(), field)
	switch key := cmp.Or(l.keys[field], field); {
	case l.file == "":
		return fmt.Errorf("--%s%s", kebab(field), rest)
	case key != field:
		return fmt.Errorf("%s: %s%s", l.file, key, rest)
	default:
		return fmt.Errorf("%s: %w", l.file, err)
	}
}

// layers are beaten each by the next.
type layers []*layer

// refused reports whether err is about a grace period that was reported already: to
// say that it is missing would send the reader the wrong way.
func (ls layers) refused(err error) bool {
	return topField(err) == graceField && slices.ContainsFunc(ls, func(l *layer) bool {
		return slices.ContainsFunc(l.refused, func(path string) bool { return strings.HasPrefix(err.Error(), path) })
	})
}

// blame returns err with the field's name in the layer that gave it; a grace
// period that nobody gave is missed by who gave the threshold. What nobody gave is
// looked for in the last file.
func (ls layers) blame(err error) error {
	fields := []string{topField(err)}
	if fields[0] == graceField {
		fields = append(fields, "evictionSoft")
	}
	for _, field := range fields {
		for _, l := range slices.Backward(ls) {
			if l.has(field, err) {
				return l.named(err)
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

// report joins errs, as many and as much of each as someone can read. What the
// file holds shall not reach a terminal as it is.
func report(errs []error) error { return input.ClipAll(errs, maxErrors) }

// split returns the single errors of a joined one. An error that wraps several
// and has words of its own stays whole.
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

// topField returns the field of the file that an error is about: what it begins with.
func topField(err error) string {
	text := err.Error()
	end := strings.IndexFunc(text, func(r rune) bool { return !plain(string(r)) })
	return text[:max(end, 0)]
}
