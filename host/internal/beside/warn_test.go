package beside

import (
	"log/slog"
	"testing"
)

// What should be mended is one event, and none in a dry run.
func TestWarnSendsOneEvent(t *testing.T) {
	findings := []Finding{{Signal: "a", Mend: true, Text: "one"}, {Signal: "b", Text: "fine"}, {Signal: "c", Mend: true, Text: "two"}}
	var events []string
	event := func(_, reason, message string) { events = append(events, reason+" "+message) }
	Warn(findings, slog.New(slog.DiscardHandler), event, true)
	Warn(findings[1:2], slog.New(slog.DiscardHandler), event, false)
	Warn(findings, slog.New(slog.DiscardHandler), event, false)
	if want := "KubeletSettings a: one; c: two"; len(events) != 1 || events[0] != want {
		t.Errorf("events %q, want %q", events, want)
	}
}
