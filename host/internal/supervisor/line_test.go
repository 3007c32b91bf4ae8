package supervisor

import (
	"log/slog"
	"slices"
	"strings"
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

func TestRecord(t *testing.T) {
	r, ok := parseRecord([]byte(`{"@level":"warn","@message":"low","@timestamp":"2026-01-02T03:04:05Z","@module":"m","left":3}`))
	if !ok || r.level != slog.LevelWarn || r.message != "low" {
		t.Fatalf("got %+v, %v", r, ok)
	}
	if got := slog.GroupValue(r.fields...).String(); got != "[module=m left=3]" {
		t.Errorf("fields %s", got)
	}
	for name, line := range map[string]string{
		"text":                 "hello",
		"empty":                "",
		"other json":           `{"msg":"x"}`,
		"level is a number":    `{"@level":1,"@message":"x"}`,
		"message is a list":    `{"@level":"info","@message":[]}`,
		"cut":                  `{"@level":"info","@mess`,
		"json that is no line": `[1]`,
	} {
		if r, ok := parseRecord([]byte(line)); ok {
			t.Errorf("%s: got %+v, want it to be text", name, r)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"@level":"warn","@message":"low","@timestamp":"x","a":{"b":[1]}}`))
	f.Add([]byte(`{"@level":7}`))
	f.Fuzz(func(_ *testing.T, line []byte) {
		l := newLineLog(slog.New(slog.DiscardHandler), "fuzz")
		l.line(line, false)
	})
}

func TestLineLogKeepsTheLastLines(t *testing.T) {
	out := &syncBuffer{}
	l := newLineLog(slog.New(slog.NewTextHandler(out, nil)), "chatty")
	l.follow(strings.NewReader(strings.Repeat("old\n", 1000)+"one\ntwo\n"), nil)
	mark := l.mark()
	l.follow(strings.NewReader("three\n"), nil)
	if got := len(l.last(keptLines)); got != keptLines {
		t.Errorf("%d lines kept, want %d", got, keptLines)
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, l.last(3)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"three"}, l.since(mark)); diff != "" {
		t.Error(diff)
	}
	if got := strings.Count(out.String(), "\n"); got > 2*maxLinesPerSecond {
		t.Errorf("%d lines logged, want about %d in a second", got, maxLinesPerSecond)
	}
}

// The log of a plugin that panicked at its start had the end of the stack only.
func TestTheLogOfACrashBeginsWithItsReason(t *testing.T) {
	stack := []string{"goroutine 1 [running]:", "main.a()", "\tmain.go:1", "main.b()", "\tmain.go:2", "main.c()"}
	var many []string
	for range 200 {
		many = append(many, stack[1:]...)
	}
	for name, c := range map[string]struct{ lines, want []string }{
		"no crash":    {[]string{"a", "b", "c", "d"}, []string{"b", "c", "d"}},
		"a short one": {[]string{"hello", "panic: no config", "goroutine 1 [running]:", "main.a()"}, []string{"panic: no config", "goroutine 1 [running]:", "main.a()"}},
		"a stack that fits": {
			append([]string{"hello", "panic: no config"}, stack[:5]...),
			append([]string{"panic: no config"}, stack[:5]...),
		},
		"more goroutines than lines are kept": {
			append([]string{"hello", "fatal error: all goroutines are asleep - deadlock!"}, append(stack[:1:1], many...)...),
			[]string{"fatal error: all goroutines are asleep - deadlock!", "goroutine 1 [running]:", "main.a()", "\tmain.go:1", "main.b()", "\tmain.go:2", "...", "main.b()", "\tmain.go:2", "main.c()"},
		},
		"Node.js": {
			[]string{"/x.js:1", "throw new Error('no')", "^", "Error: no", "    at a", "    at b", "    at c", "Node.js v18.19.0"},
			[]string{"Error: no", "    at a", "    at b", "    at c", "Node.js v18.19.0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLineLog(slog.New(slog.DiscardHandler), "p")
			l.text([]byte("panic: of a former start"), false)
			mark := l.mark()
			for _, line := range c.lines {
				l.text([]byte(line), false)
			}
			if diff := cmp.Diff(c.want, l.since(mark)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
