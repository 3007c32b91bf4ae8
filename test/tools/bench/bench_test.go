package main

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
)

func TestMain(m *testing.M) {
	runIfHog()
	os.Exit(m.Run())
}

func TestQuantile(t *testing.T) {
	var sorted []time.Duration
	for i := range 100 {
		sorted = append(sorted, time.Duration(i))
	}
	for q, want := range map[float64]time.Duration{0: 0, 0.5: 50, 0.99: 99, 1: 99} {
		if got := quantile(sorted, q); got != want {
			t.Errorf("quantile(%v) = %d, want %d", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing = %d, want 0", got)
	}
}

func TestFieldIsFoundAtTheStartOfALine(t *testing.T) {
	text := []byte("Rss: 9 kB\nSwapPss:  7 kB\nPss:      42 kB\n")
	if got := field(text, "Pss:"); got != 42 {
		t.Errorf("field = %d, want 42", got)
	}
	if got := field(text, "Private:"); got != 0 {
		t.Errorf("missing field = %d, want 0", got)
	}
}

func TestUsageGrowsWithWork(t *testing.T) {
	before, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
		continue
	}
	after, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after.cpu <= before.cpu || after.pssBytes == 0 || len(after.switches) == 0 {
		t.Errorf("usage of a busy process went from %+v to %+v", before, after)
	}
}

// What a killed run left behind goes, what belongs to a living process stays.
func TestSweepKnowsTheOwner(t *testing.T) {
	if !ownerAlive("/tmp/" + leftoverPrefix + strconv.Itoa(os.Getpid())) {
		t.Error("this process counts as dead")
	}
	if ownerAlive("/tmp/" + leftoverPrefix + "4194305") { // above the largest pid
		t.Error("a pid that cannot be counts as alive")
	}
	if !ownerAlive("/tmp/" + leftoverPrefix + "somebody's") {
		t.Error("a name that is not ours counts as left behind")
	}
}

func TestTheHogAnswersAndLeaves(t *testing.T) {
	dir := t.TempDir() // in the place of cgroups
	for file, content := range map[string]string{"memory.usage_in_bytes": "33554432\n", "memory.stat": "total_inactive_file 4096\n"} {
		testos.WriteFile(t, filepath.Join(dir, file), content, 0o600)
	}
	h, err := startHog(dir, dir, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		began := monotonic()
		if crossed, err := h.fill(); err != nil || crossed < began || crossed > monotonic() {
			t.Errorf("crossed at %v, %v, want it after %v", crossed, err, began)
		}
		if err := h.drain(); err != nil {
			t.Error(err)
		}
	}
	if err := h.stop(); err != nil {
		t.Error(err)
	}
}

func TestTheKernelRingsWhenTheHogCrosses(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs root: run make test")
	}
	const level = 16 << 20
	g, err := newCgroups(leftoverPrefix+strconv.Itoa(os.Getpid()), 4*level)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.remove(); err != nil {
			t.Error(err)
		}
	})
	if err := g.grow(2); err != nil {
		t.Fatal(err)
	}
	h, err := startHog(g.pod(0), g.path(), level)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Error(err)
		}
	})
	n, err := newNotifier(g.path(), level)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		n.drain()
		began := monotonic()
		crossed, err := h.fill()
		if err != nil {
			t.Fatal(err)
		}
		select {
		case rang := <-n.rings:
			t.Logf("filled in %v, rang %v after", crossed-began, rang-crossed)
		case <-time.After(5 * time.Second):
			t.Fatal("the kernel has not called")
		}
		if err := h.drain(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADocumentHasRatiosFirst(t *testing.T) {
	p := &part{
		Title:   "Title, µs",
		Columns: []column{{"p50_us", "p50", 1}, {"ratio", "ratio", 2}},
		Rows: []row{
			{Name: "a < b", Pods: 110, Peer: "the floor", Values: map[string]float64{"p50_us": 1234.56, "ratio": 2}},
			{Name: "short", Values: map[string]float64{"p50_us": 7, "ratio": 1000}},
		},
		Notes: []string{"a note"},
	}
	file := filepath.Join(t.TempDir(), "x.md")
	if err := document(file, "2 CPUs", []*part{p}); err != nil {
		t.Fatal(err)
	}
	text := testos.ReadFile(t, file)
	const want = "\n## Title, µs\n\n|  | ratio | to | pods | p50 |\n|---|---|---|---|---|\n| a < b | 2.00 | the floor | 110 | 1234.6 |\n| short | 1000.00 |  | - | 7.0 |\n\na note\n"
	if !strings.HasSuffix(string(text), want) {
		t.Errorf("got\n%s\nwant at its end\n%s", text, want)
	}
	picture, err := os.ReadFile(strings.TrimSuffix(file, ".md") + ".svg")
	if err != nil || strings.Count(string(picture), "<rect x=") != 2 || strings.Count(string(picture), beyondFill) != 2 || !strings.Contains(string(picture), "a &lt; b, 110 pods : the floor<") {
		t.Errorf("%v: %s, want bars of a < b and short, and a mark on the latter and in the legend", err, picture)
	}
}

func TestAFormerBuildStandsBesideEachRow(t *testing.T) {
	table := func(p50 float64) *part {
		return &part{Columns: []column{{"p50_us", "p50", 1}, {"ratio", "ratio", 2}}, Rows: []row{
			{Name: "call", Pods: 5, Peer: "the floor", Values: map[string]float64{"p50_us": p50, "ratio": 7}},
			{Name: "budget", Values: map[string]float64{"p50_us": 1}},
		}}
	}
	own := medians([]*part{table(90), table(10), table(30)})
	own.against(table(20))
	var b strings.Builder
	if err := own.print(&b); err != nil {
		t.Fatal(err)
	}
	const want = "\n\n                p50 ratio      to  pods   p50\n          call       1.50  former     5  30.0\n  call, former          -             5  20.0\n        budget          -             -   1.0\n\n"
	if b.String() != want {
		t.Errorf("got\n%q\nwant\n%q", b.String(), want)
	}
}

func TestTheSummaryTakesFiguresOfParts(t *testing.T) {
	s := summary([]*part{
		{name: "crossing", Rows: []row{{Name: "StopContainer called", Pods: 110, Values: map[string]float64{"p50_us": 8000}}}},
		{name: "thrash", Rows: []row{{Name: "evictd 100Mi at 5", Values: map[string]float64{"runs": 3, "first": 3}}, {Name: "evictd 100Mi at 9", Values: map[string]float64{"runs": 1}}}},
	})
	if got := s.values("evictd", 0); !maps.Equal(got, map[string]float64{"acts_v1_ms": 8, "first_percent": 75}) {
		t.Errorf("evictd has %v, want acts_v1_ms 8 and first_percent 75", got)
	}
	if got := s.values("systemd-oomd", 0); got == nil || len(got) > 0 {
		t.Errorf("systemd-oomd without figures has %v, want a row of dashes", got)
	}
}

func TestASymbolBelongsToTheLongestModule(t *testing.T) {
	modules := []string{"k8s.io/api", "k8s.io/apimachinery", "go.yaml.in/yaml", "go.yaml.in/yaml/v3", "gopkg.in/yaml.v3"}
	for symbol, want := range map[string]string{
		"k8s.io/apimachinery/pkg/types.X": "k8s.io/apimachinery", "k8s.io/apix.X": "standard library", "type:.eq.go.yaml.in/yaml/v3.T": "go.yaml.in/yaml/v3",
		"gopkg.in/yaml%2ev3.Unmarshal": "gopkg.in/yaml.v3", "runtime.mallocgc": "standard library",
	} {
		if got := moduleOf(symbol, modules); got != want {
			t.Errorf("module of %s = %s, want %s", symbol, got, want)
		}
	}
}
