package main

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// acme serves the images' filesystem, and disk all of them.
const diskPlugins = `"plugins":[
{"name":"acme","state":"running","since":"2026-01-01T00:00:00Z","restarts":0,"pid":7,"version":"v1","signals":[
  {"signal":"imagefs.available","offers":["rank"],"inCharge":["rank"],"roles":[{"capability":"rank","role":"in charge","why":"custom before built-in"}]},
  {"signal":"containerfs.available","offers":[],`

// Writable layers were shown in charge of disk while acme served them.
func TestThePluginsByTheLayout(t *testing.T) {
	for name, c := range map[string]struct{ status, want string }{
		"images and writable layers are one": {
			`{"layout":"imagefs","thresholds":[],"assignProblems":["assign[\"imagefs.available\"].rank is \"acme\"\u001b and so on"],` + diskPlugins + `"inCharge":["rank"],"roles":[
   {"capability":"rank","role":"in charge","as":"imagefs.available","why":"custom before built-in; asked for imagefs.available, the same filesystem","layouts":["shared","imagefs"]}]}]},
{"name":"disk","state":"running","since":"2026-01-01T00:00:00Z","restarts":0,"pid":8,"version":"v1","signals":[
  {"signal":"containerfs.available","offers":["rank"],"roles":[
   {"capability":"rank","role":"shadowed","why":"custom before built-in; asked for imagefs.available, the same filesystem","layouts":["containerfs"]}]}]}]}`,
			`PLUGIN  STATE    PID  VERSION  RESTARTS  SIGNAL                 OFFERS  IN CHARGE OF  WHY
acme    running  7    v1       0         imagefs.available      rank    rank          -
                                         containerfs.available  -       rank           
disk    running  8    v1       0         containerfs.available  rank    -             -

SIGNAL                 CAPABILITY  IN CHARGE  WHY                                                                       OTHERS           WITH OTHER LAYOUTS
imagefs.available      rank        acme       custom before built-in                                                    -                -
containerfs.available  rank        acme       custom before built-in; asked for imagefs.available, the same filesystem  disk (shadowed)  disk (containerfs)

layout of the filesystems: imagefs
warning: assign["imagefs.available"].rank is "acme"  and so on
`,
		},
		"not known": {
			`{"thresholds":[],` + diskPlugins + `"roles":[
   {"capability":"rank","role":"none","why":"the layout is not known","layouts":["shared","imagefs"]}]}]},
{"name":"disk","state":"running","since":"2026-01-01T00:00:00Z","restarts":0,"pid":8,"version":"v1","signals":[
  {"signal":"containerfs.available","offers":["rank"],"inCharge":["rank"],"roles":[
   {"capability":"rank","role":"in charge","why":"only provider","layouts":["containerfs"]}]}]}]}`,
			`PLUGIN  STATE    PID  VERSION  RESTARTS  SIGNAL                 OFFERS  IN CHARGE OF  WHY
acme    running  7    v1       0         imagefs.available      rank    rank          -
disk    running  8    v1       0         containerfs.available  rank    rank          -

SIGNAL                 CAPABILITY  IN CHARGE  WHY                     OTHERS  WITH OTHER LAYOUTS
imagefs.available      rank        acme       custom before built-in  -       -
containerfs.available  rank        disk       only provider           -       acme (shared, imagefs)

layout of the filesystems: not known, each name of a filesystem is for itself
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			address := serve(t, http.StatusOK, c.status)
			if diff := cmp.Diff(result{Out: c.want}, evictd(t, "plugins", "--listen-address", address)); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
			var status struct{ Plugins any }
			var printed any
			if err := json.Unmarshal([]byte(c.status), &status); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(evictd(t, "plugins", "--listen-address", address, "--json").Out), &printed); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(status.Plugins, printed); diff != "" {
				t.Errorf("plugins --json (-want +got):\n%s", diff)
			}
		})
	}
}
