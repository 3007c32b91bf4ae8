package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Of reclaim only who is in charge was shown, not that the others' steps run as well.
func TestTheStepsOfReclaimInTheirOrder(t *testing.T) {
	runDir := serve(t, http.StatusOK, `{"layout":"imagefs","thresholds":[],"plugins":[
{"name":"acme","state":"running","since":"2026-01-01T00:00:00Z","restarts":0,"pid":7,"version":"v1","signals":[
  {"signal":"nodefs.available","offers":["reclaim"],"inCharge":["reclaim"],"roles":[{"capability":"reclaim","role":"in charge","why":"custom before built-in",
   "steps":[{"step":"acme.example/drop","by":"acme"},{"step":"container-gc","by":"disk"},{"step":"image\u001bgc","by":"disk"}]}]}]},
{"name":"disk","state":"running","since":"2026-01-01T00:00:00Z","restarts":0,"pid":8,"version":"v1","signals":[
  {"signal":"nodefs.available","offers":["reclaim"],"roles":[{"capability":"reclaim","role":"fallback","why":"custom before built-in"}]}]}]}`)
	const want = `SIGNAL            CAPABILITY  IN CHARGE  WHY                     OTHERS
nodefs.available  reclaim     acme       custom before built-in  disk (fallback)

SIGNAL            STEPS OF RECLAIM, IN THEIR ORDER UNTIL ENOUGH IS FREE
nodefs.available  acme.example/drop (acme), container-gc (disk), image�gc (disk)

layout of the filesystems: imagefs
`
	got := evictctl(t, "plugins", "--run-dir", runDir)
	_, after, _ := strings.Cut(got.Out, "\n\n")
	if diff := cmp.Diff(want, after); diff != "" || got.Code != 0 {
		t.Errorf("exit code %d, plugins (-want +got):\n%s", got.Code, diff)
	}
}

// Writable layers were shown in charge of disk while acme served them.
func TestThePluginsByTheLayout(t *testing.T) {
	for name, c := range map[string]struct{ status, want string }{
		"images and writable layers are one": {
			`{"layout":"imagefs","thresholds":[],"assignProblems":["assign[\"imagefs.available\"].rank is \"acme\"\u001b and so on"],"plugins":[
{"name":"acme","state":"running","since":"2026-01-01T00:00:00Z","restarts":0,"pid":7,"version":"v1","signals":[
  {"signal":"imagefs.available","offers":["rank"],"inCharge":["rank"],"roles":[{"capability":"rank","role":"in charge","why":"custom before built-in"}]},
  {"signal":"containerfs.available","offers":[],"inCharge":["rank"],"roles":[
   {"capability":"rank","role":"in charge","as":"imagefs.available","why":"custom before built-in; asked for imagefs.available, the same filesystem"}]}]},
{"name":"disk","state":"running","since":"2026-01-01T00:00:00Z","restarts":0,"pid":8,"version":"v1","signals":[
  {"signal":"containerfs.available","offers":["rank"],"roles":[
   {"capability":"rank","role":"fallback","why":"custom before built-in; asked for imagefs.available, the same filesystem"}]}]}]}`,
			`PLUGIN  STATE    PID  VERSION  RESTARTS  SIGNAL                 OFFERS  IN CHARGE OF  WHY
acme    running  7    v1       0         imagefs.available      rank    rank          -
                                         containerfs.available  -       rank           
disk    running  8    v1       0         containerfs.available  rank    -             -

SIGNAL                 CAPABILITY  IN CHARGE  WHY                                                                       OTHERS
imagefs.available      rank        acme       custom before built-in                                                    -
containerfs.available  rank        acme       custom before built-in; asked for imagefs.available, the same filesystem  disk (fallback)

layout of the filesystems: imagefs
warning: assign["imagefs.available"].rank is "acme"� and so on
`,
		},
		"not known": {
			`{"thresholds":[],"plugins":[
{"name":"disk","state":"running","since":"2026-01-01T00:00:00Z","restarts":0,"pid":8,"version":"v1","signals":[
  {"signal":"containerfs.available","offers":["rank"],"inCharge":["rank"],"roles":[
   {"capability":"rank","role":"in charge","why":"only provider"}]}]}]}`,
			`PLUGIN  STATE    PID  VERSION  RESTARTS  SIGNAL                 OFFERS  IN CHARGE OF  WHY
disk    running  8    v1       0         containerfs.available  rank    rank          -

SIGNAL                 CAPABILITY  IN CHARGE  WHY            OTHERS
containerfs.available  rank        disk       only provider  -

layout of the filesystems: not known, each name of a filesystem is for itself
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			runDir := serve(t, http.StatusOK, c.status)
			if diff := cmp.Diff(result{Out: c.want}, evictctl(t, "plugins", "--run-dir", runDir)); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
			var status struct{ Plugins any }
			var printed any
			if err := json.Unmarshal([]byte(c.status), &status); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(evictctl(t, "plugins", "--run-dir", runDir, "--json").Out), &printed); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(status.Plugins, printed); diff != "" {
				t.Errorf("plugins --json (-want +got):\n%s", diff)
			}
		})
	}
}
