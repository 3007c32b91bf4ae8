package launch

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitter(t *testing.T) {
	for name, c := range map[string]struct {
		writes []string
		want   []string
	}{
		"a line over two writes":      {[]string{"on", "e\ntwo\n"}, []string{"one", "two"}},
		"a last line without its end": {[]string{"one\ntw", "o"}, []string{"one", "two"}},
		"windows":                     {[]string{"one\r\n"}, []string{"one"}},
		"empty lines":                 {[]string{"\n\n"}, []string{"", ""}},
		"exactly the limit":           {[]string{"12345678\n"}, []string{"12345678"}},
		"too long":                    {[]string{"123456", "789", "0\nok\n"}, []string{"12345678|cut", "ok"}},
		"too long without an end":     {[]string{"1234567890"}, []string{"12345678|cut"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			s := splitter{max: 8, emit: func(line []byte, cut bool) {
				if cut {
					line = append(slices.Clip(line), "|cut"...)
				}
				got = append(got, string(line))
			}}
			for _, w := range c.writes {
				if n, err := s.Write([]byte(w)); n != len(w) || err != nil {
					t.Errorf("Write = %d, %v, want %d, nil", n, err, len(w))
				}
			}
			s.flush()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// However the output is cut into writes, the lines are the same.
func FuzzSplitter(f *testing.F) {
	f.Add([]byte("one\ntwo\r\n\nvery long line\nlast"), 3)
	f.Fuzz(func(t *testing.T, in []byte, at int) {
		lines := func(writes ...[]byte) (got []string) {
			s := splitter{max: 8, emit: func(line []byte, cut bool) {
				if len(line) > 8 {
					t.Errorf("line of %d bytes, want at most 8", len(line))
				}
				got = append(got, string(line))
				_ = cut
			}}
			for _, w := range writes {
				_, _ = s.Write(w)
			}
			s.flush()
			return got
		}
		at = min(max(at, 0), len(in))
		if diff := cmp.Diff(lines(in), lines(in[:at], in[at:])); diff != "" {
			t.Error(diff)
		}
	})
}
