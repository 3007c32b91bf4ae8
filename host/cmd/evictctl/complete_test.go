package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/shared/testos"
)

func TestCommandLinesAreCompleted(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	evicted := func(id, pod, uid, signal string) *decision.Decision {
		return &decision.Decision{ID: id, Kind: decision.KindEviction, Time: at, Victim: &decision.Victim{Pod: pod, UID: uid, Signal: signal}}
	}
	dir := recorded(t, evicted("r1", "shop/web", "web-1", "memory.available"), evicted("r2", "bank/db", "db-1", "acme.example/nvme.spare"),
		evicted("r3", "shop/web", "web-1", "memory.available"), &decision.Decision{ID: "r4", Kind: decision.KindNone, Time: at},
		evicted("r5", "shop/\x1b[2J", "evil\n", "memory.available"))
	t.Chdir(t.TempDir())
	testos.WriteFile(t, "a.json", "", 0o600)
	absent := filepath.Join(dir, "absent")
	const builtin = "memory.available allocatableMemory.available nodefs.available nodefs.inodesFree imagefs.available imagefs.inodesFree containerfs.available containerfs.inodesFree pid.available"
	for args, want := range map[string]string{
		"explain --state-dir " + dir + " ":               "r5 r4 shop/web web-1 r3 bank/db db-1 r2 r1 a.json :32",
		"explain --state-dir " + dir + " r":              "r5 r4 r3 r2 r1 :32",
		"explain --state-dir " + dir + " r1 ":            ":4",
		"explain --state-dir " + absent + " ":            "a.json :32",
		"explain --state-dir " + dir + " --owner ":       "shop/web bank/db :36",
		"explain --owner shop/web ":                      ":4",
		"replay --state-dir " + dir + " r1 shop":         "shop/web :32",
		"replay --state-dir " + dir + " r1 a":            "a.json :32",
		"evictions --state-dir " + dir + " ":             "r5 r4 shop/web web-1 r3 bank/db db-1 r2 r1 :36",
		"evictions --state-dir " + dir + " web-1 ":       ":4",
		"evictions --state-dir " + absent + " ":          ":36",
		"evictions --state-dir " + dir + " --signal a":   "allocatableMemory.available acme.example/nvme.spare :36",
		"evictions --state-dir " + absent + " --signal ": builtin + " :36",
		"evictions --state-dir " + dir + " --namespace ": "shop bank :36",
		"rank --signal ":                                 builtin + " :36",
		"observe --signal ":                              builtin + " :36",
	} {
		got := evictctl(t, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		if got.Code != command.ExitFine || strings.Join(strings.Fields(got.Out), " ") != want || strings.Contains(got.Errors, "evictd:") {
			t.Errorf("%s: %d %q %s, want %s", args, got.Code, got.Out, got.Errors, want)
		}
	}
}

// The configuration of the daemon says where the records are, as without a completion.
func TestCompletionReadsTheDaemonsConfiguration(t *testing.T) {
	dir := recorded(t, &decision.Decision{ID: "r1", Kind: decision.KindNone})
	former := program.OwnFile
	t.Cleanup(func() { program.OwnFile = former })
	program.OwnFile = filepath.Join(dir, "evictd.yaml")
	testos.WriteFile(t, program.OwnFile, "stateDir: "+dir+"\n", 0o600)
	if got := evictctl(t, "__complete", "evictions", ""); got.Out != "r1\n:36\n" {
		t.Errorf("%+v, want the record", got)
	}
}
