package evictd

import (
	"errors"
	"io"
	"strings"
	"testing"
)

const written = `{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"evicting pod","pod":"demo/hog","graceSeconds":1,"ranking":["demo/hog"]}
panic: not json

{"level":"INFO","msg":"pod finished","pod":"demo/hog"}`

func TestLogIsReadLineByLine(t *testing.T) {
	var seen []string
	l := newLog(func(r Record) { seen = append(seen, r.Msg) })
	l.read(strings.NewReader(written))
	ended := errors.New("ended")
	l.close(ended)
	if got, want := strings.Join(seen, "|"), "evicting pod|panic: not json|pod finished"; got != want {
		t.Errorf("messages %q, want %q", got, want)
	}
	r := l.withMessage("evicting pod")[0]
	for key, want := range map[string]string{"pod": "demo/hog", "graceSeconds": "1", "ranking": `["demo/hog"]`, "absent": "", "time": ""} {
		if got := r.String(key); got != want {
			t.Errorf("String(%q) = %q, want %q", key, got, want)
		}
	}
	if got, want := l.text(2), "panic: not json\n"+`{"level":"INFO","msg":"pod finished","pod":"demo/hog"}`; got != want {
		t.Errorf("the last two lines are %q, want %q", got, want)
	}
	if _, err := l.await(t.Context(), func(r Record) bool { return r.Msg == "never" }); !errors.Is(err, ended) {
		t.Errorf("waiting for a record after evictd's exit ended in %v, want %v", err, ended)
	}
}

// A record that comes after the wait began is found, too.
func TestAwaitSeesLaterRecords(t *testing.T) {
	l := newLog(nil)
	from, to := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.read(from)
	}()
	go func() {
		_, _ = io.WriteString(to, written)
		_ = to.Close()
	}()
	r, err := l.await(t.Context(), func(r Record) bool { return r.Msg == "pod finished" })
	if err != nil || r.At == 0 {
		t.Errorf("await = %+v, %v", r, err)
	}
	<-done
}
