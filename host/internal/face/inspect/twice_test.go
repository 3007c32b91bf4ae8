package inspect

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/node/rundir"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/shared/testos"
)

// A package and a DaemonSet on one node, with one stateDir, both evicted, and /healthz and check were silent.
func TestTwoEvictdsWithOneStateDirectoryAreSaid(t *testing.T) {
	for name, c := range map[string]struct {
		// owner of the records, that of the other run directory if empty.
		owner string
		ends  time.Duration // of the other evictd, 0 for never
		open  bool
		said  bool
	}{
		"two":                    {open: true, said: true},
		"a former one that ends": {open: true, ends: 2 * time.Second},
		"none":                   {},
		"an older one, which does not say who it is": {open: true, owner: "?"},
		"this one": {open: true, owner: "own"},
	} {
		cfg := config.Default()
		cfg.StateDir, cfg.RunDir = t.TempDir(), filepath.Join(t.TempDir(), "run")
		other := filepath.Join(t.TempDir(), "other")
		owners := map[string]string{"?": ""}
		for dir, of := range map[string]string{cfg.RunDir: "own", other: ""} {
			opened, err := rundir.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = opened.Close() })
			_, owners[of] = rundir.ID(dir)
		}
		synctest.Test(t, func(t *testing.T) {
			writer := store.New(store.Options{Dir: config.RecordsDir(cfg.StateDir), Owner: owners[c.owner]})
			if c.open {
				if err := writer.Open(); err != nil {
					t.Fatal(err)
				}
			}
			var ended sync.WaitGroup
			if c.ends > 0 {
				ended.Go(func() {
					time.Sleep(c.ends)
					_ = writer.Close()
				})
			}
			var f Findings
			tryStateDir(t.Context(), &node{Options: Options{Holder: store.Holder}, c: &cfg}, &f)
			var want []string
			if c.said {
				want = []string{`stateDir: "` + cfg.StateDir + `": is in use by another evictd, with runDir "` + other + `": both decide on the pods of this node; want one evictd on a node`}
			}
			if got := f.Texts(Error); !slices.Equal(got, want) || len(f) != len(want) {
				t.Errorf("%s: %+v, want %q", name, f, want)
			}
			ended.Wait()
			_ = writer.Close()
		})
	}
	var f Findings
	cfg := config.Default()
	cfg.StateDir = t.TempDir()
	testos.MkdirAll(t, config.RecordsDir(cfg.StateDir), 0o755)
	tryStateDir(t.Context(), &node{c: &cfg}, &f) // a program that brings no records of its own
	if len(f) > 0 {
		t.Errorf("%+v", f)
	}
}
