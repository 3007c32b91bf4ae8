package host

import (
	"log/slog"
	"testing"

	"github.com/evictd/evictd/host/internal/face/inspect"
)

// A disk turned read-only while evictd ran, pods went one by one, and no event said why nothing was freed.
func TestProblemsOfFilesystemsAndConflictsAreEventsOnce(t *testing.T) {
	c, to := &Config{}, &eventRecorder{nodeName: "n", log: slog.New(slog.DiscardHandler)}
	report := findingEvents(func() *Config { return c }, to)
	of := func(probe string, level inspect.Level, text string) inspect.Lasting {
		return inspect.Lasting{Finding: inspect.Finding{Probe: probe, Level: level, Text: text}}
	}
	c.DryRun = true
	all := []inspect.Lasting{
		of(inspect.Filesystems, inspect.Warning, "read-only"), of(inspect.Filesystems, inspect.Error, "another"),
		of(inspect.Filesystems, inspect.Advice, "without a signal"), of("layout", inspect.Error, "unknown"),
		{Finding: inspect.Finding{Probe: inspect.KubeletConfiguration, Level: inspect.Warning, Text: "no kubelet", NoEvent: true}},
		of(inspect.KubeletConfiguration, inspect.Warning, "one"), of(inspect.KubeletConfiguration, inspect.Warning, "two"),
	}
	report(all)
	if got := to.events(); len(got) != 0 {
		t.Errorf("%+v in a dry run", got)
	}
	c.DryRun = false
	report(all)
	report(all)
	got := to.events()
	if len(got) != 3 || got[0].Message != "read-only" || got[1].Message != "another" || got[0].Reason != "FilesystemProblem" || got[0].Kind != "Node" ||
		got[2].Message != "one; two; evictctl check prints settings of the kubelet that go with evictd's" || got[2].Reason != "KubeletSettings" {
		t.Errorf("%+v", got)
	}
}
