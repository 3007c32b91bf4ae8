package printable

import (
	"fmt"
	"io"
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
