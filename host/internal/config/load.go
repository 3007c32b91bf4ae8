package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
)

// maxFileBytes is far more than a configuration needs.
const maxFileBytes = 1 << 20

// Load reads a file, without flags. An empty name gives the defaults. The error
// joins all that is wrong, one line each.
func Load(file string) (Config, error) { return load(file, nil) }

// load lays flags, which may be nil, over the file. What a flag gave is
// reported by the name of the flag, the rest by that of the file.
func load(file string, flags *Flags) (Config, error) {
	c := blank()
	errs := flags.problems()
	if file != "" {
		data, err := read(file)
		if err != nil {
			return Config{}, report(append(errs, err))
		}
		for _, err := range c.decode(data) {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
	}
	c.mergeHard()
	flags.apply(&c)
	for _, err := range append(split(c.complete(os.Hostname)), c.problems()...) {
		errs = append(errs, flags.blame(err, file))
	}
	if len(errs) > 0 {
		return Config{}, report(errs)
	}
	return c, nil
}

// report joins errs, as many and as much of each as someone can read. What the
// file holds shall not reach a terminal as it is.
func report(errs []error) error {
	const maxText = 1000
	var clean []error
	for i, err := range errs {
		if i == maxErrors {
			clean = append(clean, fmt.Errorf("and %d more", len(errs)-i))
			break
		}
		text := strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return unicode.ReplacementChar
		}, err.Error())
		if len(text) > maxText {
			text = strings.ToValidUTF8(text[:maxText], "") + "..."
		}
		clean = append(clean, printable{text, err})
	}
	return errors.Join(clean...)
}

// printable is an error with another text.
type printable struct {
	text string
	err  error
}

func (p printable) Error() string { return p.text }
func (p printable) Unwrap() error { return p.err }

func read(file string) ([]byte, error) {
	// Looked at before it is opened: opening a pipe would wait for a writer.
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("--config: %w, want a readable file", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("--config: %s is a %s, want a regular file", file, kind(info.Mode()))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--config: %w, want a readable file", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("--config: %w, want a readable file", err)
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("--config: %s is larger than %d MiB, want a configuration", file, maxFileBytes>>20)
	}
	return data, nil
}

func kind(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&os.ModeNamedPipe != 0:
		return "pipe"
	case m&os.ModeSocket != 0:
		return "socket"
	default:
		return "device"
	}
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
