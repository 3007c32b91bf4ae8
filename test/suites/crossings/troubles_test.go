package crossings_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/agent"
)

const (
	// fewFiles is the number of descriptors that evictd has: less than it is troubled with.
	fewFiles = 512
	// troubleRounds are played without the troubles, and as many with them.
	troubleRounds = 3
	// troubleRate takes longer to the crossing than evictd waits for the relief of the
	// round before. MiB/s.
	troubleRate = 200
	// nester makes directories in directories beside its socket.
	nester = "nests-directories"
)

// Everything at once that nobody needs rights for, or a plugin with a user can do:
// 1000 idle connections, a reader of the log and scrapers that have stalled, a
// directory of manifests that comes and goes, and a directory of a socket that is
// nested deeper than there are descriptors. The pod that has to go gets SIGTERM within
// a second of when it is without.
func TestFiveTroublesAtOnceDoNotKeepTheHog(t *testing.T) {
	if os.Getenv("EVICTD_TEST_E2E") != "1" {
		t.Skip("needs root and real containers: run make e2e")
	}
	tr := &troubles{t: t, program: daemon.Build(t, "broken")}
	tr.field = newField(t, ofPods, tr.adapt)
	alone := tr.play("alone", nothing)
	troubled := tr.play("troubled", tr.begin)
	tr.field.bystanderLives(t)
	late := slices.Max(troubled) - slices.Min(alone)
	t.Logf("crossed -> SIGTERM alone %.1f ms, with five troubles %.1f ms: at most %.1f ms later", alone, troubled, late)
	if late >= 1000 {
		t.Errorf("SIGTERM with five troubles is %.1f ms later, want less than a second", late)
	}
}

// troubles are made for the evictd of a field.
type troubles struct {
	t       *testing.T
	field   *field
	program string // of the nester
	log     stall
}

// adapt has evictd run with few descriptors, its log read by a reader that may
// stall, and the nester, once it is there, as a user who comes as far as its socket.
func (tr *troubles) adapt(s *stack.Stack, o *agent.Options) {
	tr.t.Helper()
	script := filepath.Join(s.Dir, "few-files")
	must(tr.t, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", fewFiles, o.Binary), 0o755))
	o.Binary, o.OnRecord = script, tr.log.read
	o.Config["runDir"] = filepath.Join(s.Dir, "run")
	o.Config["logLevel"] = "debug"
	o.Config["plugins"] = map[string]any{nester: map[string]any{"user": "nobody"}}
}

// play returns, of each round, the milliseconds from the crossing to the SIGTERM.
func (tr *troubles) play(name string, beside func() (end func())) (latencies []float64) {
	tr.t.Helper()
	for i := range troubleRounds {
		r, err := tr.field.round(tr.t, fmt.Sprintf("%s-%d", name, i+1), troubleRate, beside)
		if err != nil {
			tr.t.Fatalf("round %d, %s: %v", i+1, name, err)
		}
		tr.t.Logf("%-8s %d  crossed -> SIGTERM %6.1f ms  (crossing known to %.1f ms)  gone after %4.0f ms", name, i+1, r.latency, r.gap, r.gone)
		latencies = append(latencies, r.latency)
	}
	return latencies
}

// begin makes all five troubles. Their end sees to it that they were there.
func (tr *troubles) begin() (end func()) {
	t, f := tr.t, tr.field
	t.Helper()
	tr.awaitManifests()
	decided := len(f.agent.Records("evicting pod"))
	address := f.agent.Address("metrics")
	flow := sync.OnceFunc(tr.log.begin(t, f.agent))
	t.Cleanup(flow) // before evictd is waited for
	letGo := holdConnections(t, address)
	hangUp := stallScrapers(t, address)
	remove := tr.installNester()
	stay := comeAndGo(t, f.stack.ManifestDir)
	return func() {
		if code, _, err := f.agent.Get(t.Context(), "/metrics"); code != 200 || err != nil {
			t.Errorf("beside the stalled ones a scraper gets %d, %v; want 200", code, err)
		}
		if n := len(f.agent.Records("evicting pod")); n != decided {
			t.Errorf("%d victims were read in the log that nobody read, want %d of before", n, decided)
		}
		stay()
		remove()
		hangUp()
		letGo()
		flow()
	}
}

// awaitManifests waits until evictd has read the manifests: it tells of one that is
// none.
func (tr *troubles) awaitManifests() {
	t, f := tr.t, tr.field
	t.Helper()
	probe := filepath.Join(f.stack.ManifestDir, fmt.Sprintf("none-%d.yaml", f.pods))
	must(t, os.WriteFile(probe, nil, 0o600))
	_, err := f.agent.Await(t.Context(), func(r evictd.Record) bool { return strings.Contains(r.String("problem"), filepath.Base(probe)) })
	must(t, errors.Join(err, os.Remove(probe)))
}

// installNester has evictd start the nester, and waits until it is at its work.
func (tr *troubles) installNester() (remove func()) {
	t, s := tr.t, tr.field.stack
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(s.Dir, "evictd-*", "plugins"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("plugin directories %v (%v), want one", dirs, err)
	}
	beside, program := filepath.Join(s.Dir, nester), filepath.Join(dirs[0], nester)
	must(t, evictd.Install(tr.program, beside))
	must(t, os.Rename(beside, program))
	eventually(t, "a socket's directory is nested", func() bool {
		found, _ := filepath.Glob(filepath.Join(s.Dir, "run", "plugins", "*", strings.Repeat("d/", 10)))
		return len(found) > 0
	})
	return func() { must(t, os.Remove(program)) }
}
