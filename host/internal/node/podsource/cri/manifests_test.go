package cri

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/cost"
)

func podYAML(uid, name string, more ...string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {uid: \"" + uid + "\", name: \"" + name + "\", namespace: default}\n" + strings.Join(more, "\n")
}

func put(t testing.TB, dir, name, content string) {
	t.Helper()
	testos.WriteFile(t, filepath.Join(dir, name), content, 0o600)
}

func uids(m map[string]*manifest) []string {
	var out []string
	for uid := range m {
		out = append(out, uid)
	}
	slices.Sort(out)
	return out
}

const mi = 1 << 20

// defaultRules returns the rules of a kubelet with default feature gates.
var defaultRules = pods.Rules{PodLevelResources: true, Wanted: &pods.Wanted{Ask: func() []string { return []string{"a", "x"} }}}

func TestOneBadManifestDoesNotCostTheOthers(t *testing.T) {
	for name, c := range map[string]struct {
		file, content string
		want          string
		used          bool
	}{
		"no YAML":                {"bad.yaml", "a: [", "did not find expected node content", false},
		"no JSON":                {"bad.json", "{", "unexpected end of JSON input", false},
		"empty":                  {"bad.yaml", "# nothing\n---\n", "is empty, want a v1.Pod", false},
		"another kind":           {"bad.yaml", "apiVersion: apps/v1\nkind: Deployment\n", `is apiVersion "apps/v1", kind "Deployment", want apiVersion "v1", kind "Pod"`, false},
		"a list":                 {"bad.json", `[1]`, "is of type array, want a v1.Pod", false},
		"no uid":                 {"bad.yaml", podYAML("", "x"), "metadata.uid is missing", false},
		"no name":                {"bad.yaml", podYAML("u", ""), "metadata.name is missing", false},
		"a uid with a slash":     {"bad.yaml", podYAML("../../etc", "x"), `metadata.uid "../../etc" has characters`, false},
		"a huge uid":             {"bad.yaml", podYAML(strings.Repeat("u", 300), "x"), "has 300 bytes, want at most 253", false},
		"a wrong type":           {"bad.yaml", podYAML("u", "x", "spec: {priority: high}"), "bad.yaml: spec.priority: is of type string, want int32", false},
		"a wrong quantity":       {"bad.yaml", podYAML("u", "x", "spec: {containers: [{name: c, resources: {requests: {memory: lots}}}]}"), "quantities must match", false},
		"an endless quantity":    {"bad.yaml", podYAML("u", "x", `spec: {containers: [{name: c, resources: {requests: {memory: "1E-99999999"}}}]}`), `spec.containers[0].resources.requests.memory: "1E-99999999": exponent "E-99999999" is too large`, false},
		"an endless size limit":  {"bad.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"uid":"u","name":"x"},"spec":{"volumes":[{"emptyDir":{"sizeLimit":1E-99999999}}]}}`, `exponent "E-99999999" is too large`, false},
		"two documents":          {"bad.yaml", podYAML("u", "x") + "\n---\n" + podYAML("v", "y"), "more than one YAML document", false},
		"too large":              {"bad.yaml", podYAML("u", "x") + strings.Repeat("# padding\n", maxManifestBytes/10), "is larger than 1 MiB", false},
		"a negative request":     {"bad.yaml", podYAML("u", "x", "spec: {containers: [{name: c, resources: {requests: {memory: -5Gi}}}]}"), "spec.containers[0].resources.requests.memory: -5Gi is negative (used all the same)", true},
		"a negative grace":       {"bad.yaml", podYAML("u", "x", "spec: {terminationGracePeriodSeconds: -1}"), "spec.terminationGracePeriodSeconds: -1 is negative (used all the same)", true},
		"an unknown field":       {"bad.yaml", podYAML("u", "x", "spec: {terminationGracePeriod: 3}"), `unknown field "spec.terminationGracePeriod" (used all the same)`, true},
		"a class without number": {"bad.yaml", podYAML("u", "x", "spec: {priorityClassName: gold}"), `spec.priorityClassName: "gold" has no number here, so the pod has priority 0; want the number of the class in spec.priority (used all the same)`, true},
		"a key given twice":      {"bad.yaml", podYAML("u", "x", "spec: {nodeName: a, nodeName: b}"), `spec.nodeName: given twice, again on line 4 (used all the same)`, true},
		"the uid of another":     {"zzz.yml", podYAML("good", "x"), "good.yaml, for another pod: the one that runs under this uid decides; want one file for each pod", false},
		"the uid of one before":  {"aaa.yml", podYAML("good", "x"), "aaa.yml, for another pod: the one that runs under this uid decides; want one file for each pod", true},
		"the same pod again":     {"zzz.yml", podYAML("good", "good"), "good.yaml, which is used; want one file for each pod", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "good.yaml", podYAML("good", "good"))
			put(t, dir, c.file, c.content)
			put(t, dir, ".hidden.yaml", "rubbish")
			put(t, dir, "README.md", "rubbish")
			got, problems := NewManifests(dir, defaultRules).list()
			if got["good"] == nil {
				t.Errorf("the good manifest is gone, have %v", uids(got))
			}
			if len(problems) != 1 || !strings.Contains(problems[0].Error(), c.want) {
				t.Fatalf("problems %v, want one with %q", problems, c.want)
			}
			if strings.Contains(c.want, "good.yaml") && !strings.Contains(problems[0].Error(), c.file) {
				t.Errorf("problem %v, want both files named", problems[0])
			}
			if used := problems[0].File != filepath.Join(dir, c.file) || got["u"] != nil; used != c.used {
				t.Errorf("the other manifest is used: %v, want %v", used, c.used)
			}
		})
	}
}

func TestADirectoryThatIsNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	m := NewManifests(dir, defaultRules)
	got, problems := m.list()
	if len(got) != 0 || len(problems) != 1 || problems[0].File != dir || !strings.Contains(problems[0].Error(), "manifest directory does not exist") {
		t.Errorf("manifests %v, problems %v", uids(got), problems)
	}
	testos.Mkdir(t, dir, 0o700)
	put(t, dir, "a.yaml", podYAML("a", "a"))
	if got, problems = m.list(); len(got) != 1 || len(problems) != 0 {
		t.Errorf("once it is there: manifests %v, problems %v", uids(got), problems)
	}
}

// A directory with a million files was read whole, at each listing.
func TestADirectoryWithTooManyFilesIsAProblemAndWhatWasReadStaysInUse(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "good.yaml", podYAML("good", "good"))
	m := NewManifests(dir, defaultRules)
	for i := range maxManifests - 1 {
		put(t, dir, fmt.Sprintf("other-%d.txt", i), "")
	}
	if got, problems := m.list(); len(got) != 1 || len(problems) != 0 {
		t.Fatalf("%d manifests, problems %v", len(got), problems)
	}
	put(t, dir, "more.yaml", podYAML("more", "more"))
	got, problems := m.list()
	const want = "has at least 4097 files, want at most 4096; the 1 manifests that were read before are still used"
	if len(got) != 1 || len(problems) != 1 || problems[0].File != dir || !strings.Contains(problems[0].Err.Error(), want) {
		t.Errorf("%d manifests, problems %v, want %s", len(got), problems, want)
	}
}

func TestAFifoDoesNotStopTheListing(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, problems := NewManifests(dir, defaultRules).list(); len(problems) != 1 || !strings.Contains(problems[0].Error(), "want a regular file") {
		t.Errorf("problems %v", problems)
	}
}

func TestOnlyWhatChangedIsParsedAgain(t *testing.T) {
	dir := t.TempDir()
	m := NewManifests(dir, defaultRules)
	put(t, dir, "a.yaml", podYAML("a", "a"))
	put(t, dir, "b.yaml", podYAML("b", "b"))
	// A file that was written just now may change once more within one tick of
	// its timestamps, so it is read again until it is old enough.
	first, _ := m.list()
	if again, _ := m.list(); again["a"] == first["a"] {
		t.Error("a file that is still warm was not read again")
	}
	deadline := time.Now().Add(10 * time.Second)
	for ; !m.joined.files["a.yaml"].settled || !m.joined.files["b.yaml"].settled; m.list() {
		if time.Now().After(deadline) {
			t.Fatal("files never settle")
		}
	}
	before, _ := m.list()
	put(t, dir, "a.yaml", podYAML("a", "c")) // same size
	after, _ := m.list()
	if after["a"] == before["a"] || after["a"].row.Name != "c" {
		t.Errorf("a changed file was not read again: %v", after["a"].row)
	}
	if after["b"] != before["b"] {
		t.Error("an unchanged file was read again")
	}
	testos.Remove(t, filepath.Join(dir, "b.yaml"))
	if got, problems := m.list(); len(got) != 1 || len(problems) != 0 || len(m.joined.files) != 1 {
		t.Errorf("after removal: %v, %v", uids(got), problems)
	}
}

func TestManifestsGetTheDefaultsOfTheAPI(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.yaml", podYAML("a", "a", `
spec:
  containers:
  - name: c
    resources: {limits: {cpu: 1, memory: 64Mi}}
  volumes:
  - name: scratch
`))
	put(t, dir, "b.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"uid":"b","name":"b"},"spec":{"terminationGracePeriodSeconds":5,
		"resources":{"limits":{"cpu":"1","memory":"1Gi"}},
		"containers":[{"name":"c","resources":{"requests":{"memory":"16Mi"}}}]}}`)
	got, problems := NewManifests(dir, defaultRules).list()
	if len(problems) != 0 {
		t.Fatal(problems)
	}
	a, b := got["a"], got["b"]
	if *a.api.Spec.TerminationGracePeriodSeconds != 30 || *b.api.Spec.TerminationGracePeriodSeconds != 5 {
		t.Error("grace periods are not 30 by default and else as given")
	}
	if a.row.MemoryRequestBytes != 64*mi || a.row.QoSClass != "Guaranteed" || a.row.Volumes[0].Kind != "emptyDir" {
		t.Errorf("limits only: %+v, want requests from limits and an emptyDir", a.row)
	}
	if b.row.MemoryRequestBytes != 16*mi || b.row.QoSClass != "Burstable" {
		t.Errorf("limits at pod level: %+v, want the memory request of the containers", b.row)
	}
	if cpu := b.api.Spec.Resources.Requests.Cpu().String(); cpu != "1" {
		t.Errorf("cpu request at pod level is %s, want the limit, since no container requests any", cpu)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(podYAML("u", "x", "spec: {containers: [{name: c, resources: {requests: {memory: 1Gi}}}]}")), false)
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"uid":"b","name":"b"},"spec":{"resources":{"limits":{"memory":"1Gi"}},"overhead":{"memory":"1"}}}`), true)
	f.Add([]byte("a: &a [*a]"), false)
	f.Add([]byte(podYAML("u", "x", "spec: {overhead: {cpu: &a 1E-99999999, memory: *a}}")), false)
	f.Add([]byte("a: &a {b: &b [c, c, c, c]}\nd: [*a, *b, {<<: *a}]\n"), false)
	f.Add([]byte("---\n---\n"), false)
	f.Fuzz(func(t *testing.T, data []byte, isJSON bool) {
		var (
			pod          *v1.Pod
			row          eviction.Pod
			warning, err error
		)
		cost.Within(t, len(data), func() {
			if pod, warning, err = decode(data, isJSON, false); err == nil {
				row = defaultRules.Row(pod, nil)
				_ = defaultRules.Requests(pod)
			}
		})
		if text := (pods.Problem{Err: errors.Join(err, warning, errors.ErrUnsupported)}).Error(); len(text) > 2000 || strings.ContainsAny(text, "\x00\x1b\n") {
			t.Errorf("%d bytes of error text, want few and printable ones: %.200q", len(text), text)
		}
		if err != nil {
			return
		}
		if row.UID == "" || row.Name == "" || len(row.UID) > maxIdentity {
			t.Errorf("accepted %q %q", row.UID, row.Name)
		}
	})
}

// A pod of the class system-node-critical whose manifest had no number counted as priority 0, and went first.
func TestAPodOfASystemClassWithoutANumberIsCritical(t *testing.T) {
	for spec, want := range map[string]int32{
		"priorityClassName: system-node-critical":                 2_000_001_000,
		"priorityClassName: system-cluster-critical":              2_000_000_000,
		"priorityClassName: system-node-critical, priority: null": 2_000_001_000,
		"priorityClassName: system-node-critical, priority: 5":    5,
		"priorityClassName: system-cluster-critical, priority: 0": 0,
		`priorityClassName: ""`:                                   0,
		"priority: 7":                                             7,
	} {
		dir := t.TempDir()
		put(t, dir, "p.yaml", podYAML("u", "p", "spec: {"+spec+"}"))
		got, problems := NewManifests(dir, defaultRules).list()
		if len(problems) > 0 || got["u"].row.Priority != want || policy.Evictable(got["u"].api) != (want < 2_000_000_000) {
			t.Errorf("%s: priority %d, problems %v, want %d", spec, got["u"].row.Priority, problems, want)
		}
	}
	// The class of a static pod that is not known makes it no more evictable.
	dir := t.TempDir()
	put(t, dir, "s.yaml", podYAML("s", "s", "spec: {priorityClassName: gold}"))
	m := NewManifests(t.TempDir(), defaultRules).WithStatic(nodefs.FS{}, dir, "node")
	if got, problems := m.list(); len(problems) > 0 || policy.Evictable(got["s"].api) {
		t.Errorf("static: %v, problems %v", got, problems)
	}
}
