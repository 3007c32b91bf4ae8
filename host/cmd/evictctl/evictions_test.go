package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/shared/testos"
)

// recorded makes a state directory with these records.
func recorded(t *testing.T, all ...*decision.Decision) string {
	t.Helper()
	dir := t.TempDir()
	s := store.New(store.Options{Dir: filepath.Join(dir, "records"), MaxBytes: 1 << 20, MaxAge: 72 * time.Hour})
	for _, r := range all {
		r.Version = decision.Version
		if err := s.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEvictionsAreListed(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r1, r2, r3 := decision.NewID(at), decision.NewID(at.Add(time.Minute)), decision.NewID(time.Now())
	dir := recorded(t,
		&decision.Decision{ID: r1, Kind: decision.KindNone, Time: at, Reason: "no pod is active", Ranker: &decision.Ranker{Name: "memory"}},
		&decision.Decision{
			ID: r2, Kind: decision.KindEviction, Time: at.Add(time.Minute), Victim: &decision.Victim{Pod: "shop/report", UID: "report-1", Signal: "memory.available"},
			Outcome: &decision.Outcome{State: "finished", GoneMS: 1250}, Ranker: &decision.Ranker{Name: "cost-aware"},
		},
		&decision.Decision{ID: r3, Kind: decision.KindLimit, Time: time.Now(), DryRun: true, Victim: &decision.Victim{Pod: "other/db", UID: "db-1", Signal: "ephemeralpodfs.limit"}},
	)
	for args, want := range map[string]string{
		"":                           "r2 r3",
		"--all":                      "r1 r2 r3",
		"report":                     "r2",
		"shop/report":                "r2",
		"report-1":                   "r2",
		"--since 1h":                 "r3",
		"--since 7d":                 "r3",
		"--since 60000d":             "r2 r3",
		"--namespace shop":           "r2",
		"--signal memory.available":  "r2",
		"--signal nodefs.inodesFree": "",
		"--kind eviction":            "r2",
		"--kind none":                "r1",
		"--kind grace --all":         "",
		"--plugin cost-aware":        "r2",
		"--plugin memory":            "",
		"--plugin memory --all":      "r1",
		"--plugin memory --kind none e20260101T120000": "r1",
	} {
		got := evictctl(t, append([]string{"evictions", "--json", "--state-dir", dir}, strings.Fields(args)...)...)
		var ids []string
		for line := range strings.Lines(got.Out) {
			_, rest, _ := strings.Cut(line, `"id":"`)
			ids = append(ids, rest[:len(r1)])
		}
		want = strings.NewReplacer("r1", r1, "r2", r2, "r3", r3).Replace(want)
		if strings.Join(ids, " ") != want || got.Code != command.ExitFine {
			t.Errorf("evictions %s: %v, want %s; %d %s", args, ids, want, got.Code, got.Errors)
		}
	}
	got := evictctl(t, "evictions", "--state-dir", dir, "--namespace", "shop").Out
	want := "EPISODE TIME DECISION POD OWNER SIGNAL USED FREED WHAT FOLLOWED RECORD\n" +
		"e20260101T120100 2026-01-01 12:01:00 eviction shop/report - memory.available - - gone after 1.3s " + r2 + "\n"
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("listed\n%s, want\n%s", got, want)
	}
}

// Where nothing was decided, or a filter took all away, there were headers and nothing else.
func TestEvictionsSaysWhyThereIsNone(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	empty, dir := t.TempDir(), recorded(t, &decision.Decision{ID: decision.NewID(at), Kind: decision.KindNone, Time: at, Reason: "no pod is active"},
		&decision.Decision{ID: decision.NewID(at), Kind: decision.KindEviction, Time: at, Victim: &decision.Victim{Pod: "shop/report", UID: "report-1", Signal: "memory.available"}})
	for args, c := range map[string]struct{ dir, want string }{
		"":                        {empty, "evictctl: no decision is on record in " + empty + "/records\n"},
		"shop/cart":               {dir, "evictctl: no eviction of shop/cart since 2026-01-01 12:00:00 is on record in " + dir + "/records; --all lists decisions not to evict\n"},
		"--namespace bank --all":  {dir, "evictctl: no decision of bank since 2026-01-01 12:00:00 is on record in " + dir + "/records\n"},
		"--signal pid.available":  {dir, "evictctl: no eviction for pid.available since 2026-01-01 12:00:00 is on record in " + dir + "/records; --all lists decisions not to evict\n"},
		"--kind grace":            {dir, "evictctl: no grace decision since 2026-01-01 12:00:00 is on record in " + dir + "/records\n"},
		"--plugin mine":           {dir, "evictctl: no eviction ranked by mine since 2026-01-01 12:00:00 is on record in " + dir + "/records; --all lists decisions not to evict\n"},
		"report":                  {dir, ""},
		"--json --namespace bank": {dir, ""},
	} {
		got := evictctl(t, append([]string{"evictions", "--state-dir", c.dir}, strings.Fields(args)...)...)
		if got.Code != command.ExitFine || got.Errors != c.want {
			t.Errorf("evictions %s: %d, %q, want %q", args, got.Code, got.Errors, c.want)
		}
	}
	if got := evictctl(t, "evictions", "--state-dir", dir, "--since", "1h").Errors; !strings.Contains(got, "no eviction since "+time.Now().Add(-time.Hour).UTC().Format("2006-")) {
		t.Errorf("evictions --since 1h: %q, want an hour ago", got)
	}
}

func TestAgesAreDurationsOrDays(t *testing.T) {
	for _, name := range []string{"evictions", "replay"} {
		for _, age := range []string{"-1h", "-1d", "1w", "d", "1d12h", "70000d", ""} {
			want := `evictctl: invalid argument "` + age + `" for "--since" flag: want a duration such as 36h or 7d, see evictctl ` + name + " --help\n"
			if got := evictctl(t, name, "--since="+age); got.Code != command.ExitUsage || got.Errors != want {
				t.Errorf("%s --since %s: %d %s, want %s", name, age, got.Code, got.Errors, want)
			}
		}
		if help := evictctl(t, name, "--help").Out; !strings.Contains(help, "--since duration ") || strings.Contains(help, "(default 0") {
			t.Errorf("%s --help: %s", name, help)
		}
	}
}

// An empty table and exit code 0 looked like a quiet node.
func TestRecordsThatCannotBeReadAreAnError(t *testing.T) {
	dir := t.TempDir()
	file, config := filepath.Join(dir, "file"), filepath.Join(dir, "evictd.yaml")
	for name, text := range map[string]string{file: "", config: "stateDir: " + dir + "/absent\nrunDir: " + dir + "/run\n"} {
		testos.WriteFile(t, name, text, 0o600)
	}
	damaged := recorded(t, &decision.Decision{ID: "r1", Kind: decision.KindEviction, Victim: &decision.Victim{Pod: "shop/web", UID: "web-1"}})
	record := filepath.Join(damaged, "records", "r1_shop_web_web-1.json.gz")
	testos.WriteFile(t, record, strings.Repeat("no record ", 10), 0o600)
	for args, c := range map[string]struct {
		code int
		want string
	}{
		"--state-dir " + file:            {command.ExitFailure, "evictctl: open " + file + "/records: not a directory\n"},
		"--state-dir " + dir + "/absent": {command.ExitFailure, `evictctl: --state-dir: "` + dir + `/absent": no such file or directory, want the stateDir of the evictd that made the records` + "\n"},
		"--json --state-dir " + damaged:  {command.ExitFailure, "evictctl: " + record + ": gzip: invalid header\n"},
		"--config " + config:             {command.ExitFine, "evictctl: the daemon does not answer: no evictd has locked run directory " + dir + "/run; is evictd running, with this configuration?\nevictctl: no decision is on record in " + dir + "/absent/records\n"},
	} {
		if got := evictctl(t, append([]string{"evictions"}, strings.Fields(args)...)...); got.Code != c.code || got.Errors != c.want || (got.Out == "") != (c.code != command.ExitFine) {
			t.Errorf("evictions %s: %+v, want %d and %s", args, got, c.code, c.want)
		}
	}
}

// A command with the id of the log line waits for the record, which is written after the line.
func TestCommandsWaitForTheRecordOfTheIDInTheLog(t *testing.T) {
	for _, name := range []string{"evictions", "explain", "replay --plugin-dir " + newNode(t).plugins} {
		dir, id := t.TempDir(), decision.NewID(time.Now())
		s := store.New(store.Options{Dir: config.RecordsDir(dir), MaxBytes: 1 << 20, MaxAge: 72 * time.Hour})
		written := make(chan error, 1)
		time.AfterFunc(100*time.Millisecond, func() {
			written <- s.Append(&decision.Decision{
				Version: decision.Version, ID: id, Kind: decision.KindEviction, Time: time.Now(), Victim: &decision.Victim{Pod: "shop/report", UID: "report-1", Signal: "memory.available"},
			})
		})
		got := evictctl(t, append(strings.Fields(name), "--state-dir", dir, id)...)
		if said := got.Out + got.Errors; !strings.Contains(said, id) || strings.Contains(said, "no record") || strings.Contains(said, "no eviction") {
			t.Errorf("%s: %+v", name, got)
		}
		if err := errors.Join(<-written, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
