package summary

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// What is read as a pass and view is that pass and view when it is asked for again.
func FuzzParsePassView(f *testing.F) {
	for _, seed := range []string{
		"pass=7&view=before", "pass=18446744073709551615&view=after-reclaim", "pass=7", "pass=%37&view=before&x", "view=;&&=", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := parsePassView(query)
		if err != nil {
			if text := err.Error(); len(text) > 300 || strings.ContainsAny(text, "\r\n") {
				t.Errorf("error %q does not fit into an answer", text)
			}
			return
		}
		same := url.Values{"pass": {strconv.FormatUint(q.Pass, 10)}, "view": {viewName(q.View)}}
		if again, err := parsePassView(same.Encode()); err != nil || again != q {
			t.Errorf("%q is %v, and again %v, %v", query, q, again, err)
		}
	})
}

// A foreign text becomes one line of UTF-8 that a header can have.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{"", "two\r\nlines", "\x00\x7f\xff", strings.Repeat("ö", maxTextBytes)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := line(text)
		if !utf8.ValidString(got) || len(got) > maxTextBytes+len("...") || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("line(%q) = %q", text, got)
		}
	})
}
