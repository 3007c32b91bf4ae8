package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/go-plugin"

	"github.com/evictd/evictd/shared/wire"
)

const (
	protocol = root + "/docs/protocol.md"
	proto    = root + "/shared/proto/evictd/plugin/v1/plugin.proto"
)

// Everything that has a name in the protocol is explained.
func TestProtocolNamesEveryCallAndValue(t *testing.T) {
	text, spec := read(t, protocol), read(t, proto)
	names := regexp.MustCompile(`(?m)^\s+(?:rpc (\w+)\(|([A-Z][A-Z_]+) = \d+;)`).FindAllStringSubmatch(spec, -1)
	if len(names) < 30 {
		t.Fatalf("only %d names were recognized: the proto has another form now", len(names))
	}
	for _, n := range names {
		if name := n[1] + n[2]; !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s does not name `%s`", protocol, name)
		}
	}
}

// The usual deadlines are the same in the proto and in the document; pins holds
// both against the code.
func TestProtocolDeadlines(t *testing.T) {
	text, spec := read(t, protocol), read(t, proto)
	calls := regexp.MustCompile(`(?s)((?:  //[^\n]*\n)+)  rpc (\w+)`).FindAllStringSubmatch(spec, -1)
	if len(calls) != 8 {
		t.Fatalf("%d calls were recognized, want 8", len(calls))
	}
	for _, c := range calls {
		comment := strings.Join(strings.Fields(strings.ReplaceAll(c[1], "//", "")), " ")
		want := "none"
		if m := regexp.MustCompile(`Deadline: (\d+ \w+)`).FindStringSubmatch(comment); m != nil {
			want = m[1]
		} else if !strings.Contains(comment, "No deadline.") {
			t.Errorf("%s: the proto does not say its deadline", c[2])
		}
		row := regexp.MustCompile("(?m)^\\| `" + c[2] + "` \\|[^|]*\\| " + want + `[ ,]`)
		if !row.MatchString(text) {
			t.Errorf("%s does not say %q in the row of %s", protocol, want, c[2])
		}
	}
}

// A pin is a figure in the code and where the document says it: who changes the
// one is shown the other.
var pins = []struct{ file, code, text string }{
	{"shared/eviction/deadline.go", "HandshakeDeadline = 10 * time.Second", "together have 10 s from the start"},
	{"shared/eviction/deadline.go", "DescribeDeadline  = 2 * time.Second", "configuration | 2 s |"},
	{"shared/eviction/deadline.go", "ConfigureDeadline = 2 * time.Second", "capabilities | 2 s |"},
	{"shared/eviction/deadline.go", "ObserveDeadline   = time.Second", "the node's figures | 1 s |"},
	{"shared/eviction/deadline.go", "MeasureDeadline   = 5 * time.Second", "a stream of answers | 5 s |"},
	{"shared/eviction/deadline.go", "RankDeadline      = time.Second", "who goes first | 1 s |"},
	{"shared/eviction/deadline.go", "MetricsDeadline   = 200 * time.Millisecond", "own metrics | 200 ms |"},
	{"shared/eviction/metric.go", "MaxSamples      = 64", "| 16 KiB; 64 |"},
	{"shared/eviction/metric.go", "MaxMetricsBytes = 16 << 10", "| 16 KiB; 64 |"},
	{"shared/eviction/metric.go", "maxLabelBytes   = 128", "| 1 KiB; 8; 128 bytes |"},
	{"shared/wire/bounds.go", `{field: 1, what: "labels", most: 8}`, "| 1 KiB; 8; 128 bytes |"},
	{"shared/eviction/deadline.go", "ReclaimIdleDeadline = 30 * time.Second", "and 30 s without a message |"},
	{"shared/eviction/deadline.go", "ReclaimDeadline     = 10 * time.Minute", "a stream of progress | 10 min,"},
	{"shared/eviction/deadline.go", "StopDeadline = 2 * time.Second", "After 2 s SIGKILL to the"},
	{
		"host/internal/pluginhost/supervisor/process.go", "first: 200 * time.Millisecond, longest: 30 * time.Second, crashes: 5, window: 10 * time.Minute",
		"after 0.2 s, doubling up to 30 s; after 5 times in 10 min it is left alone for 10 min",
	},
	{"host/internal/pluginhost/client/slowness.go", "missesToKill = 3", "leaves 3 calls in a row without an answer, or 3 of one kind"},
	{"host/internal/pluginhost/client/slowness.go", "mostDelay  = SlowWindow / 20", "more than 3 s within a minute beyond a tenth"},
	{"host/internal/pluginhost/client/slowness.go", "StandbyFor = 10 * time.Minute", "offer the same, for 10 min |"},
	{"shared/launch/lines.go", "maxLineBytes = 64 << 10", "Records end at 64 KiB"},
	{"host/internal/pluginhost/output/log.go", "maxTextBytes = 2 << 10", "of which 2 KiB"},
	{"host/internal/pluginhost/output/log.go", "maxLinesPerSecond = 200", "At most 200 lines and"},
	{"shared/launch/log.go", "KeptLines = 100", "the last 100 lines"},
	{"host/internal/pluginhost/output/log.go", "maxBytesPerSecond = 256 << 10", "and 256 KiB a second are logged"},
	{"shared/launch/lines.go", "ReadRate = 4 << 20", "More than 4 MiB a second are not read"},
	{"host/internal/pluginhost/client/client.go", "mostWakes = 500", "and more than 500 end the call"},
	{"host/internal/pluginhost/client/client.go", "mostProgress = 10_000", "| messages of progress | 10 000 a second |"},
	{"shared/wire/configure.go", "maxProblems = 64", "steps in the path of one | 64; 32 |"},
	{"shared/wire/configure.go", "maxSteps    = 32", "steps in the path of one | 64; 32 |"},
	{"shared/wire/bounds.go", `{field: 1, what: "path", most: maxSteps, bytes: maxKeyBytes}`, "| of one problem: a step; the text | 317 bytes; 1 KiB |"},
	{"host/internal/pluginhost/client/refusal.go", "maxFieldErrors = 20", "The host shows 20 problems"},
	{"host/internal/ground/printable/printable.go", "maxText  = 1000", "line of 1000 bytes"},
	{"host/internal/pluginhost/client/check.go", "maxReasonBytes = 1 << 10", "1 KiB is kept"},
	{"shared/launch/command.go", `parentFDEnv = "EVICTD_PARENT_FD=3"`, "| `EVICTD_PARENT_FD` | the number of the inherited pipe, `3`."},
	{"shared/sandbox/sandbox.go", "programFD = 4", "`/proc/self/fd/4`"},
	{"host/internal/core/observe/budget.go", "slowBudget = 30 * time.Second", "custom plugins have 30 s together"},
	{"host/internal/core/observe/budget.go", "promptBudget = time.Second", "for memory and process ids\n1 s."},
	{"host/internal/core/wake/limiter.go", "wakesPerSecond = 20", "more than 20 a second come to nothing"},
	{"host/internal/face/config/config.go", `is:"interval" default:"10s"`, "until the next interval (10 s)"},
	{"shared/wire/goplugin.go", "MaxMessageBytes = 8 << 20", "limits of 8 MiB for a message"},
	{"shared/wire/send.go", "chunk = 100", "messages of at most 100 pods"},
	{"shared/wire/send.go", "chunk = 100", "| `measurements` of a message | 100 |"},
	{"shared/wire/client.go", "dropped <= len(req.Pods)+chunk", "| as many as pods were sent, and 100 |"},
	{"shared/wire/measurement.go", "maxContainers = 1000", "| of one pod: containers, volumes | 1000 |"},
	{"shared/wire/measurement.go", "maxVolumes    = 1000", "| of one pod: containers, volumes | 1000 |"},
	{"shared/wire/measurement.go", "maxUsages     = 64", "| of one pod: `usage` | 64 |"},
	{"shared/wire/bounds.go", "maxNameBytes = 253", "| `name`, `version`, the name of a signal or a step | 253 bytes |"},
	{"shared/wire/bounds.go", "maxKeyBytes  = 253 + 1 + 63", "| a key of a label or an annotation | 317 bytes |"},
	{"shared/wire/bounds.go", "maxSignals = 64", "`components` of each | 64 |"},
	{"shared/wire/bounds.go", `{field: 4, what: "reclaimSteps", most: 32`, "| `reclaim_steps` of a signal | 32 |"},
	{"shared/wire/errors.go", "maxErrorBytes = 4 << 10", "of the text of an error 4 KiB"},
	{"shared/eviction/sample.go", "MaxSampleAge   = 2 * time.Minute", "or more than 2 minutes old"},
	{"shared/eviction/sample.go", "MaxSampleAhead = time.Second", "is more than 1 s ahead"},
	{"shared/eviction/signal.go", "len(name) > 253", "at most 253 bytes"},
	{"sdk/parent.go", `parentVariable = "EVICTD_PARENT_FD"`, "the pipe `EVICTD_PARENT_FD` ends"},
	{"shared/conformance/internal/watch/wakes.go", "3*machine.BallastBytes", "takes 192 MiB"},
	{"shared/conformance/internal/machine/machine.go", "BallastBytes   = 64 << 20", "takes 192 MiB"},
	{"shared/conformance/internal/machine/machine.go", "want/10", "and allows a tenth"},
	{"shared/conformance/internal/steady/steady.go", "leastRounds = 3", "300 at least"},
	{"shared/conformance/internal/steady/steady.go", "manyCandidates = 5000", "of which a node may have 5000"},
	{"Makefile", "breaking --against $(DESCRIPTOR)", "`shared/proto/descriptor.binpb`"},
}

func TestProtocolFigures(t *testing.T) {
	text := read(t, protocol)
	for _, p := range pins {
		if !strings.Contains(read(t, filepath.Join(root, p.file)), p.code) {
			t.Errorf("%s no longer has %q: see what %s says and change it here too", p.file, p.code, protocol)
		}
		if !strings.Contains(text, p.text) {
			t.Errorf("%s does not say %q, which is what %q in %s means", protocol, p.text, p.code, p.file)
		}
	}
}

// Every variable that the host, the SDK or go-plugin names is in the document;
// test/suites/process compares it with what a process really gets.
func TestProtocolNamesEveryVariable(t *testing.T) {
	text := read(t, protocol)
	want := map[string]bool{wire.Handshake.MagicCookieKey: true, wire.Handshake.MagicCookieValue: true, plugin.EnvUnixSocketDir: true}
	for _, dir := range []string{"host/internal/pluginhost/supervisor", "shared/sandbox", "shared/launch", "shared/wire", "sdk", "sdk/internal/stdout"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no code in %s: %v", dir, err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			for _, name := range regexp.MustCompile(`"((?:EVICTD|PLUGIN)_[A-Z_]+)[="]`).FindAllStringSubmatch(read(t, f), -1) {
				want[name[1]] = true
			}
		}
	}
	for name := range want {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s does not name `%s`", protocol, name)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	return strings.Join(lines(t, path), "\n")
}

// Every signal of the kubelet's is named: a plugin in another language has no other
// list of them.
func TestProtocolNamesEverySignal(t *testing.T) {
	text := read(t, protocol)
	names := regexp.MustCompile(`Signal = "([a-zA-Z]+\.[a-zA-Z]+)"`).FindAllStringSubmatch(read(t, root+"/shared/eviction/signal.go"), -1)
	if len(names) != 9 {
		t.Fatalf("%d signals were recognized, want 9", len(names))
	}
	for _, n := range names {
		if !strings.Contains(text, "`"+n[1]+"`") {
			t.Errorf("%s does not name `%s`", protocol, n[1])
		}
	}
}
