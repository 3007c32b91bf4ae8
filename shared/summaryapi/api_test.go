package summaryapi

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What is read as a pass and view is that pass and view when it is asked for again.
func FuzzParseQuery(f *testing.F) {
	for _, seed := range []string{
		"pass=7&view=before", "pass=18446744073709551615&view=after-reclaim", "pass=7", "pass=%37&view=before&x", "view=;&&=", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := ParseQuery(query)
		if err != nil {
			if text := err.Error(); len(text) > 300 || strings.ContainsAny(text, "\r\n") {
				t.Errorf("error %q does not fit into an answer", text)
			}
			return
		}
		same, err := Query(q)
		if again, parseErr := ParseQuery(same); err != nil || parseErr != nil || again != q {
			t.Errorf("%q is %v, and again %v, %v, %v", query, q, again, err, parseErr)
		}
	})
}

// A foreign text becomes one line of UTF-8 that a header can have.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{"", "two\r\nlines", "\x00\x7f\xff", strings.Repeat("ö", MaxTextBytes)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Line(text)
		if !utf8.ValidString(got) || len(got) > MaxTextBytes+len("...") || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("Line(%q) = %q", text, got)
		}
	})
}
