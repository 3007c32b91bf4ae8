package input

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable returns text on one line without what a terminal or a picture acts on: control characters,
// of C1 too, and those that turn the direction of writing.
func Printable(text string) string {
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

// EscapeJSON returns a writer of JSON to w, with escapes for what Printable replaces. Each write has
// whole characters.
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
