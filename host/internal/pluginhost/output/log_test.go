package output

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/launch"
)

func TestRecord(t *testing.T) {
	r, ok := parseRecord([]byte(`{"@level":"warn","@message":"low","@timestamp":"2026-01-02T03:04:05Z","@module":"m","left":3}`))
	if !ok || r.level != "warn" || r.message != "low" {
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

func TestRecordsAreLoggedAtTheirLevel(t *testing.T) {
	for level, want := range map[string]string{"trace": "DEBUG", "debug": "DEBUG", "info": "INFO", "warn": "WARN", "error": "ERROR", "odd": "INFO"} {
		out := &bytes.Buffer{}
		l := New(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})), "p")
		l.Line([]byte(`{"@level":"`+level+`","@message":"low","left":3}`), false)
		if got := out.String(); !strings.Contains(got, "level="+want+` msg="plugin log" plugin=p text=low fields.left=3`) {
			t.Errorf("%s: logged %q, want level %s", level, got, want)
		}
	}
}

// Lines that were dropped are reported once a second, however many there are.
func TestDroppedLinesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &bytes.Buffer{}
		l := New(slog.New(slog.NewTextHandler(out, nil)), "wild")
		for range 10 * maxLinesPerSecond {
			l.Text([]byte("x"), false)
		}
		if strings.Contains(out.String(), "writes too much") {
			t.Error("told while lines are dropped, want it with the next line that is logged")
		}
		for range 3 {
			time.Sleep(10 * time.Millisecond)
			l.Text([]byte("y"), false)
		}
		if got := out.String(); strings.Count(got, "writes too much") != 1 || !strings.Contains(got, "lines=1800") {
			t.Errorf("logged %.300q..., want it told once that 1800 lines were dropped", got[max(0, len(got)-300):])
		}
	})
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
	if got := len(l.Last(launch.KeptLines)); got != launch.KeptLines {
		t.Errorf("%d lines kept, want %d", got, launch.KeptLines)
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, l.Last(3)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"three"}, l.Since(mark, 1)); diff != "" {
		t.Error(diff)
	}
	if got := strings.Count(out.String(), "\n"); got > 2*maxLinesPerSecond {
		t.Errorf("%d lines logged, want about %d in a second", got, maxLinesPerSecond)
	}
}
