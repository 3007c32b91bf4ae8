package output

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/launch"
)

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
		l := New(slog.New(slog.DiscardHandler), "fuzz")
		l.Line(line, false)
	})
}

func TestALogKeepsTheLastLines(t *testing.T) {
	out := &bytes.Buffer{}
	l := New(slog.New(slog.NewTextHandler(out, nil)), "chatty")
	for range 1000 {
		l.Line([]byte("old"), false)
	}
	l.Line([]byte("one"), false)
	l.Line([]byte("two"), false)
	mark := l.Mark()
	l.Line([]byte("three"), false)
	if got := len(l.Last()); got != launch.KeptLines {
		t.Errorf("%d lines kept, want %d", got, launch.KeptLines)
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, l.kept.Last(3)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"three"}, l.Since(mark)); diff != "" {
		t.Error(diff)
	}
	if got := strings.Count(out.String(), "\n"); got > 2*maxLinesPerSecond {
		t.Errorf("%d lines logged, want about %d in a second", got, maxLinesPerSecond)
	}
}
