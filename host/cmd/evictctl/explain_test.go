package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/record/reason"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

// "rt/x.json" is a pod's name, and was read as a file's.
func TestExplainFindsAPodThatIsNamedLikeAFile(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ofPod := &decision.Decision{ID: "r1", Kind: decision.KindEviction, Time: at, Victim: &decision.Victim{Pod: "rt/x.json", UID: "x-1", Signal: "memory.available"}}
	state := recorded(t, ofPod)
	t.Chdir(t.TempDir())
	explain := func(what string) result {
		t.Helper()
		return evictctl(t, "explain", "--json", "--state-dir", state, what)
	}
	for _, what := range []string{"rt/x.json", "x.json"} {
		if got := explain(what); got.Code != command.ExitFine || !strings.Contains(got.Out, `"r1"`) || got.Errors != "" {
			t.Errorf("explain %s: %d %s%s, want the pod's record", what, got.Code, got.Out, got.Errors)
		}
	}
	if got := explain("rt/y.json"); got.Code == command.ExitFine || !strings.Contains(got.Errors, "no such file") || !strings.Contains(got.Errors, "no record of it in "+state) {
		t.Errorf("explain of neither: %d %s, want to be told that there is no file and no pod", got.Code, got.Errors)
	}
	inFile := *ofPod
	inFile.ID = "r2"
	data, err := json.Marshal(&inFile)
	if err != nil {
		t.Fatal(err)
	}
	testos.WriteFile(t, "x.json", data, 0o600)
	if got := explain("x.json"); got.Code != command.ExitFine || !strings.Contains(got.Out, `"r2"`) || !strings.Contains(got.Errors, "tells of the file") || !strings.Contains(got.Errors, "r1") {
		t.Errorf("explain of both: %d %s%s, want the file's record, and to be told that", got.Code, got.Out, got.Errors)
	}
	testos.WriteFile(t, "rt", "", 0o600)
	if got := explain("rt/x.json"); got.Code != command.ExitFine || !strings.Contains(got.Out, `"r1"`) || !strings.Contains(got.Errors, "tells of the pod") {
		t.Errorf("explain of a pod beside a file that cannot be read: %d %s%s, want the pod's record, and to be told that", got.Code, got.Out, got.Errors)
	}
}

// Records as --json prints them were explained without their outcome.
func TestExplainOfItsOwnJSONIsThatOfTheRecord(t *testing.T) {
	const record = "../../internal/core/decision/testdata/soft.json"
	want := evictctl(t, "explain", record).Out
	file := filepath.Join(t.TempDir(), "printed.json")
	testos.WriteFile(t, file, evictctl(t, "explain", "--json", record).Out, 0o600)
	if got := evictctl(t, "explain", file).Out; got != want || !strings.Contains(want, "2Gi came back of the 3Gi that it used") {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
	r, err := store.InFile(record)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(recorded(t, r) + "/records/r1_*.json.gz")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if got := evictctl(t, "explain", files[0]); got.Out != want {
		t.Errorf("%s: told\n%+v\nwant\n%s", files[0], got, want)
	}
}

// Pods' names in a record with control characters of C1, or those that turn the direction of writing,
// did to a terminal what they are for, and hid what a picture says.
func TestNoNameOfAFileReachesATerminalAsItIs(t *testing.T) {
	const evil = "a\u009b2Jb\u202ec\u2066d\u200fe\u061cf\u0085g"
	n := newNode(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		testos.WriteFile(t, file, text, 0o600)
		return file
	}
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r := decision.Decision{
		Version: decision.Version, ID: "r1", Kind: decision.KindEviction, Time: at, Node: evil, Thresholds: []decision.Threshold{{Signal: eviction.Signal(evil), Value: "1", Acted: true}},
		Observations: []decision.Observation{{Signal: eviction.Signal(evil), State: decision.StateObserved, Capacity: 10}},
		Victim:       &decision.Victim{Pod: "shop/" + evil, UID: "x-1", Signal: evil, Message: evil}, Before: decision.Before{Signals: []decision.Series{{Signal: eviction.Signal(evil), Unit: 1, Available: []int64{1, 2}}}},
	}
	data, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	file := write("record.json", string(data))
	again := r
	again.ID = "r2"
	state := recorded(t, &r, &again)
	bad := write("bad.json", `{"`+evil+`":1,"steps":[{"`+evil+`":1}]}`)
	for _, args := range [][]string{
		{"explain", file},
		{"explain", "--svg", file},
		{"explain", "--html", file},
		{"explain", "--html", "--state-dir", state, "shop"},
		{"explain", "--json", file},
		{"explain", "--state-dir", dir, "shop/" + evil},
		{"explain", "--state-dir", state, "shop/a"},
		{"explain", "--state-dir", state, "--owner", r.Victim.Pod},
		{"explain", "--state-dir", state, "--owner", r.Victim.Pod, "--html"},
		{"explain", "--state-dir", state, "--owner", r.Victim.Pod, "--json"},
		{"explain", "--state-dir", state, "--owner", "shop/b" + evil},
		{"explain", file, "--if", "memory.available<" + evil},
		{"evictions", "--state-dir", state},
		{"replay", "--plugin-dir", n.plugins, bad},
		{"replay", "--plugin-dir", n.plugins, filepath.Join(dir, evil+".json")},
		{"evictions", "--state-dir", recorded(t, &r), "--json"},
	} {
		got := evictctl(t, args...)
		if at := strings.IndexFunc(got.Out+got.Errors, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); at >= 0 {
			t.Errorf("%q: %.60q is printed", args, (got.Out + got.Errors)[at:])
		}
		if !strings.Contains(got.Out+got.Errors, "2Jb") {
			t.Errorf("%q: %d %s%s, want a text with the name", args, got.Code, got.Out, got.Errors)
		}
	}
	var printed decision.Decision
	if err := json.Unmarshal([]byte(evictctl(t, "explain", "--json", file).Out), &printed); err != nil || printed.Victim.Pod != r.Victim.Pod {
		t.Errorf("JSON has the pod %q, %v, want %q", printed.Victim.Pod, err, r.Victim.Pod)
	}
}

// The annotation said "a request of 585Mi would have spared it", and explain "at least 348Mi".
func TestTheAdviceIsTheSameEverywhere(t *testing.T) {
	r, err := store.InFile("../../internal/core/decision/testdata/soft.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		use, former int64
		want        string
	}{
		"that has grown":     {3 << 30, 3<<30 - 1, "a request of 3Gi would have spared it"},
		"that is growing":    {3 << 30, 2 << 30, "it was still growing by 260Mi/s: find what grows, or give the pod a limit"},
		"between two steps":  {3<<30 - 5<<19, 3<<30 - 5<<19, "a request of 3070Mi would have spared it"},
		"that began at once": {3 << 30, -1, "a request of 3Gi would have spared it"},
	} {
		r.Candidates[1].Usage, r.Curves, r.Usage = c.use, []string{"shop/report"}, []decision.UsageSample{{MS: -4000, Used: []int64{c.former}}}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "r.json")
		testos.WriteFile(t, file, data, 0o600)
		if why := reason.Why(r, 0, 0); !strings.HasSuffix(why, "; "+c.want) {
			t.Errorf("a use %s: annotation %q, want %q", name, why, c.want)
		}
		if text := evictctl(t, "explain", file).Out; !strings.Contains(text, "\n  advice        "+c.want) {
			t.Errorf("a use %s: want %q in\n%s", name, c.want, text)
		}
		if printed := evictctl(t, "explain", "--json", file).Out; !strings.Contains(printed, c.want+`"`) {
			t.Errorf("a use %s: want %q in\n%s", name, c.want, printed)
		}
	}
}

// An engineer explains a night: all of its evictions, also one over a limit, and none that is older.
func TestExplainTellsOfANight(t *testing.T) {
	at := time.Now().Add(-time.Hour)
	eviction := func(ago time.Duration, kind, pod string) *decision.Decision {
		then := at.Add(-ago)
		return &decision.Decision{ID: decision.NewID(then), Kind: kind, Time: then, Victim: &decision.Victim{Pod: "shop/" + pod, UID: pod, Signal: "memory.available"}}
	}
	dir := recorded(t, eviction(48*time.Hour, decision.KindEviction, "old"), eviction(time.Minute, decision.KindEviction, "report"), eviction(0, decision.KindLimit, "cache"))
	for _, flags := range [][]string{nil, {"--html"}} {
		got := evictctl(t, append([]string{"explain", "--state-dir", dir, "--since", "12h"}, flags...)...)
		if got.Code != 0 || !strings.Contains(got.Out, "shop/report") || !strings.Contains(got.Out, "shop/cache") || strings.Contains(got.Out, "shop/old") {
			t.Errorf("%q: %d %s%s", flags, got.Code, got.Out, got.Errors)
		}
	}
	for _, args := range [][]string{{"--since", "12h", "shop/report"}, {"--since", "1s"}, {"--since", "12h", "--now"}, {"--since", "0s"}} {
		if got := evictctl(t, append([]string{"explain", "--state-dir", dir}, args...)...); got.Code == 0 {
			t.Errorf("%q: %s", args, got.Out)
		}
	}
}

// An owner gets the last eviction of a pod in each form, without the names of others.
func TestExplainForAnOwnerNamesNoOtherPod(t *testing.T) {
	d, err := store.InFile("../../internal/why/tell/testdata/example.json")
	if err != nil {
		t.Fatal(err)
	}
	former := *d
	former.ID, former.Time = decision.NewID(d.Time.Add(-time.Hour)), d.Time.Add(-time.Hour)
	tried := *d
	tried.ID, tried.DryRun, tried.Victim = decision.NewID(d.Time.Add(time.Hour)), true, &decision.Victim{Pod: "shop/tried", UID: "tried-1"}
	dir := recorded(t, &former, d, &tried)
	for form, want := range map[string][]string{
		"":       {"time          2026-01-01 12:00:50 UTC", "own use       3Gi, request is 512Mi", "spared by     it was still growing by 17Mi/s: "},
		"--json": {`"time": "2026-01-01T12:00:50Z"`, `"request": "512Mi"`, `"place": 1`},
		"--html": {"<h1>Eviction of shop/report</h1>", "<dt>own use</dt>\n<dd>3Gi, request is 512Mi</dd>"},
	} {
		got := evictctl(t, slices.DeleteFunc([]string{"explain", "--state-dir", dir, "--owner", "shop/report", form}, func(arg string) bool { return arg == "" })...)
		if got.Code != command.ExitFine || strings.Contains(got.Out, "shop/web") || got.Errors != "" {
			t.Errorf("%s: %d %s%s", form, got.Code, got.Out, got.Errors)
		}
		for _, text := range want {
			if !strings.Contains(got.Out, text) {
				t.Errorf("%s: want %q in\n%s", form, text, got.Out)
			}
		}
	}
	for args, want := range map[string]string{
		"--owner shop":                                  `--owner: "shop", want NAMESPACE/POD`,
		"--owner=":                                      `--owner: "", want NAMESPACE/POD`,
		"--owner deployment/shop/report":                `want NAMESPACE/POD`,
		"--owner shop/rep":                              "--owner: shop/rep: no record of this pod",
		"--owner shop/absent":                           "--owner: shop/absent: no record of it in " + dir,
		"--owner shop/tried":                            "is of a dry run: the pod was not evicted",
		"--owner shop/report shop/web":                  `--owner names the pod, want no argument "shop/web" beside it`,
		"--owner shop/report --since 1h":                "[owner since]",
		"--owner shop/report --svg":                     "[owner svg]",
		"--owner shop/report --now":                     "[now owner]",
		"--owner shop/report --if memory.available<2Gi": "[if owner]",
		"--owner shop/report --json --html":             "[html json]",
	} {
		got := evictctl(t, append([]string{"explain", "--state-dir", dir}, strings.Split(args, " ")...)...)
		if got.Code == command.ExitFine || got.Out != "" || !strings.Contains(got.Errors, want) {
			t.Errorf("%s: %d %s%s, want %q", args, got.Code, got.Out, got.Errors, want)
		}
	}
}
