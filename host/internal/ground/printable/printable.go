// Package printable makes foreign text short and safe to show.
package printable

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns text on one line, without characters that affect a terminal or a picture:
// control characters, including C1, and those that change the writing direction.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		default:
			return unicode.ReplacementChar
		}
	}, text)
}

// EscapeJSON returns a writer of JSON to w that escapes the characters that Text replaces.
// Each write must contain whole characters.
func EscapeJSON(w io.Writer) io.Writer { return escaping{w} }

type escaping struct{ io.Writer }

// Write implements io.Writer.
func (e escaping) Write(document []byte) (int, error) {
	b := make([]byte, 0, len(document))
	for _, r := range string(document) {
		if r == '\n' || unicode.IsPrint(r) {
			b = utf8.AppendRune(b, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	if _, err := e.Writer.Write(b); err != nil {
		return 0, err
	}
	return len(document), nil
}

// maxText bounds foreign text in an error, maxShown each wrong value in it, in bytes.
const (
	maxText  = 1000
	maxShown = 80
)

// Clip returns err with its text as one short line that is safe for a terminal; nil stays nil.
func Clip(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clipped := ClipText(text); clipped != text {
		return clippedError{clipped, err}
	}
	return err
}

// ClipText returns text on one line of at most maxText bytes that is safe for a terminal.
func ClipText(text string) string { return Text(cut(text, maxText)) }

// Shown shortens a wrong value for an error.
func Shown(value string) string { return cut(value, maxShown) }

func cut(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// ClipAll joins at most most errors, each clipped, and the number of the rest. It ignores nil.
func ClipAll(errs []error, most int) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	var clipped []error
	for i, err := range errs {
		if i == most {
			clipped = append(clipped, fmt.Errorf("and %d more", len(errs)-i))
			break
		}
		clipped = append(clipped, Clip(err))
	}
	return errors.Join(clipped...)
}

type clippedError struct {
	text string
	err  error
}

func (c clippedError) Error() string { return c.text }
func (c clippedError) Unwrap() error { return c.err }
