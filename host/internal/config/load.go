package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/evictd/evictd/host/internal/input"
)

// maxFileBytes is far more than a configuration needs.
const maxFileBytes = 1 << 20

// Load reads evictd's own file, without flags. An empty name gives the defaults.
// The error joins all that is wrong, one line each.
func Load(file string) (Config, error) { return sources{own: file}.load(nil) }

// LoadWithKubelet reads the kubelet's file, too, which the own one beats field by
// field. Either name may be empty.
func LoadWithKubelet(file, kubeletFile string) (Config, error) {
	return sources{own: file, kubelet: kubeletFile}.load(nil)
}

// sources are what a configuration is made of, files by name.
type sources struct {
	own, kubelet string
	// also are checks that not every user of a Config needs to pass.
	also func(*Config) []error
}

// load lays flags, which may be nil, over the files. What a flag gave is reported
// by the name of the flag, the rest by that of the file.
func (s sources) load(flags *Flags) (Config, error) {
	c := blank()
	errs := flags.problems()
	ls, readable := layers(nil), true
	for _, source := range []struct {
		flag, file string
		decode     func(*layer, []byte) []error
	}{
		{"--kubelet-config", s.kubelet, c.decodeKubelet},
		{"--config", s.own, c.decode},
	} {
		if source.file == "" {
			continue
		}
		data, err := read(source.flag, source.file)
		if err != nil {
			errs, readable = append(errs, err), false
			continue
		}
		l := &layer{file: source.file, keys: map[string]string{}}
		for _, err := range source.decode(l, data) {
			errs = append(errs, l.named(topField(err), err))
		}
		ls = append(ls, l)
	}
	if !readable {
		return Config{}, report(errs)
	}
	ls.dropUnpaired(&c)
	c.mergeHard()
	flags.apply(&c)
	found := append(split(c.complete(os.Hostname)), c.problems()...)
	if s.also != nil {
		found = append(found, s.also(&c)...)
	}
	for _, err := range found {
		errs = append(errs, flags.blame(err, ls))
	}
	if len(errs) > 0 {
		return Config{}, report(errs)
	}
	return c, nil
}

// report joins errs, as many and as much of each as someone can read. What the
// file holds shall not reach a terminal as it is.
func report(errs []error) error { return input.ClipAll(errs, maxErrors) }

func read(flag, file string) ([]byte, error) {
	data, err := input.ReadFileSoon(file, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", flag, file, err)
	}
	return data, nil
}

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

// topField is the field of the file that an error is about: what it begins with.
func topField(err error) string {
	text := err.Error()
	end := strings.IndexFunc(text, func(r rune) bool { return !plain(string(r)) })
	return text[:max(end, 0)]
}
