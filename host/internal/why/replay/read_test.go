package replay

import (
	"bytes"
	"compress/gzip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/cost"
)

// small is a scenario with nothing in it that need not be.
const small = `{"steps": [{"summary": {}}]}`

func TestWhatAScenarioDoesNotSay(t *testing.T) {
	trace, err := Read(file(t, "quiet.yaml", []byte("steps: [{summary: {}}, {advanceSeconds: 0}]")))
	if err != nil {
		t.Fatal(err)
	}
	s := trace.Scenario
	got := []any{
		s.SchemaVersion, s.Name, s.NodeName, s.FilesystemLayout, s.StartTime.UTC().String(), s.Config.EvictionPressureTransitionPeriod.Duration.String(),
		s.Config.LocalStorageCapacityIsolation, s.Steps[0].AdvanceSeconds, s.Steps[1].AdvanceSeconds, s.Steps[1].Summary == nil, trace.Decisions == nil,
	}
	want := []any{1, "quiet", "node", LayoutShared, "2026-01-01 12:00:00 +0000 UTC", "5m0s", true, 10.0, 0.0, true, true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// file writes a file with a name of its own.
func file(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testos.WriteFile(t, path, data, 0o600)
	return path
}

func zipped(t *testing.T, data string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(data)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFormsOfFiles(t *testing.T) {
	const yaml = "name: same\nstartTime: 2026-02-03T04:05:06Z\nsteps:\n- advanceSeconds: 1.5\n  summary: {node: {nodeName: n1}}\n  cleanupSeconds: 2\n"
	const bare = `{"name":"same","startTime":"2026-02-03T04:05:06Z","steps":[{"advanceSeconds":1.5,"summary":{"node":{"nodeName":"n1"}},"cleanupSeconds":2}]}`
	want, err := Read(file(t, "same.json", []byte(bare)))
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"YAML":             file(t, "a.yaml", []byte(yaml)),
		"YAML, compressed": file(t, "a.yml.gz", zipped(t, yaml)),
		"JSON, compressed": file(t, "a.json.gz", zipped(t, bare)),
		"a trace":          file(t, "a.json", []byte(`{"scenario":`+bare+`}`)),
		"JSON in YAML":     file(t, "a.yaml", []byte(bare)),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	for name, c := range map[string]struct{ path, want string }{
		"absent":        {filepath.Join(t.TempDir(), "absent.json"), "no such file"},
		"a directory":   {t.TempDir(), "is a directory"},
		"not zipped":    {file(t, "a.json.gz", []byte(strings.Repeat("{}", 9))), "gzip: invalid header"},
		"cut off":       {file(t, "a.json.gz", zipped(t, small)[:20]), "unexpected EOF"},
		"YAML, a twice": {file(t, "a.yaml", []byte("name: a\nname: b\n")), `name: given twice, again on line 2`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Read(c.path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("got %v, want an error with %q and the path", err, c.want)
			}
		})
	}
}

// Whoever writes a scenario by hand gets all errors at once, each with the field,
// the value and what would be right.
func TestBadScenarios(t *testing.T) {
	const pod = `{"metadata":{"name":"a","uid":"u-a"}}`
	for name, c := range map[string]struct{ in, want string }{
		"empty":            {`{}`, "steps: none: want at least one, each a pass of the manager"},
		"no object":        {`[]`, "not a trace or scenario: json: cannot unmarshal array into Go value of type map[string]json.RawMessage"},
		"no scenario":      {`{"scenario": 3}`, `scenario: 3: want an object with some of schemaVersion, name, description, rule, quirks, seed, startTime, nodeName, config, filesystemLayout, pods, steps`},
		"a slip of a name": {`{"step": [], "steps": [{"summary": {}}]}`, `step: unknown field, want one of schemaVersion, name, description, rule, quirks, seed, startTime, nodeName, config, filesystemLayout, pods, steps`},
		"several, deep down": {
			`{"config": {"evictionHard": {"memory.available": 5}, "evictionMaxPodGracePeriod": "1"}, "steps": [{"summary": {}}, {"advanceSeconds": "10s", "reclaim": {"imageGcError": "x"}}]}`,
			`config.evictionHard: {"memory.available": 5}: json: cannot unmarshal number into Go value of type string: want texts by name, such as {"memory.available": "100Mi"}
config.evictionMaxPodGracePeriod: "1": json: cannot unmarshal string into Go value of type int32: want a whole number
steps[1].advanceSeconds: "10s": json: cannot unmarshal string into Go value of type float64: want a number of seconds
steps[1].reclaim.imageGcError: unknown field, want one of containerGCError, imageGCError, summaryAfter, summaryAfterError`,
		},
		"wrong kinds": {
			`{"startTime": "noon", "pods": {}, "config": [], "quirks": "x", "steps": [null, {"summary": 3, "cleanupSeconds": []}]}`,
			`quirks: "x": json: cannot unmarshal string into Go value of type []string: want a list of texts
startTime: "noon": parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006": want a time such as 2026-01-31T12:00:00Z
config: []: want an object with some of evictionHard, evictionSoft, evictionSoftGracePeriod, evictionMinimumReclaim, evictionPressureTransitionPeriod, evictionMaxPodGracePeriod, enforceNodeAllocatable, localStorageCapacityIsolation, plugins, compatibility, featureGates
pods: {}: want a list
steps[0]: null: want a step
steps[1].summary: 3: want the kubelet's stats summary, an object
steps[1].cleanupSeconds: []: json: cannot unmarshal array into Go value of type float64: want a number of seconds`,
		},
		"pods": {
			`{"pods": [{"spec": {"continers": []}}, null, 3], "steps": [{"summary": {}}]}`,
			`pods[0]: {"spec": {"continers": []}}: unknown field "spec.continers": want a v1.Pod
pods[1]: null: want a v1.Pod
pods[2]: 3: json: cannot unmarshal number into Go value of type v1.Pod: want a v1.Pod`,
		},
		"amounts that would take for ever to read": {
			`{"pods": [{"spec":{"overhead":{"memory":"1E-99999999"}}}], "steps": [{"summary": {}}]}`,
			`pods[0]: {"spec":{"overhead":{"memory":"1E-99999999"}}}: spec.overhead.memory: "1E-99999999": exponent "E-99999999" is too large: want a v1.Pod`,
		},
		"a field twice": {`{"name": "a", "name": "b", "steps": [{"summary": {}}]}`, `duplicate field "name"`},
		"what does not fit together": {
			`{"schemaVersion": 2, "filesystemLayout": "both", "pods": [` + pod + `,` + pod + `,{"metadata":{"name":"b"}}],
			 "steps": [{"advanceSeconds": -1, "removePods": ["u-b"], "killErrors": {"u-c": "x", "*": "y"}, "cleanupSeconds": 1e99},
			           {"removePods": ["u-a"]}, {"updatePods": [` + pod + `]}, {"addPods": [` + pod + `], "admit": [{"metadata":{"uid":"u-d"}}]}]}`,
			`schemaVersion: 2: want 1
filesystemLayout: "both": want one of shared, imagefs, containerfs
pods[1].metadata.uid: "u-a": another active pod has it, want one of its own
pods[2].metadata.uid: missing (pod "b"): want a uid, as in podRef of the summary
steps[0].advanceSeconds: -1: want 0 to 1e+09 seconds
steps[0].removePods[0]: "u-b": want the uid of an active pod, one of u-a
steps[0].killErrors["u-c"]: want "*" or the uid of an active pod, one of u-a
steps[0].cleanupSeconds: 1e+99: want 0 to 1e+09 seconds
steps[2].updatePods[0].metadata.uid: "u-a": want the uid of an active pod, of which there is none
steps[3].admit[0].metadata.name: missing: want a name
steps[0].summary: missing: want the kubelet's stats summary; later steps without one see the one before`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(c.in))
			if err == nil {
				t.Fatal("it was accepted")
			}
			if diff := cmp.Diff(strings.Split(c.want, "\n"), strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRubbishIsReportedInPart(t *testing.T) {
	_, err := Decode([]byte(`{"pods": [` + strings.Repeat("1,", 99) + `1]}`))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != maxErrors+1 || lines[maxErrors] != "and 70 more" {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

func TestRecordedTracesAreRead(t *testing.T) {
	files, err := filepath.Glob("../../../../test/traces/rule-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, path := range files {
		trace, err := Read(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if trace.Decisions == nil || trace.Scenario.Name == "" {
			t.Errorf("%s: decisions or name are missing", path)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(small), false)
	f.Add([]byte("pods: [{metadata: &m {uid: u, name: n}, spec: {overhead: {cpu: 1E-99999999}}}]\nsteps: [{summary: *m}, {summary: {<<: *m}}]\n"), true)
	f.Add([]byte(`{"scenario":{"pods":[{"metadata":{"uid":"u","name":"n"}}],"steps":[{"summary":{},"advanceSeconds":1e9,"cleanupSeconds":0,"removePods":["u"]}]},"decisions":{"steps":[]}}`), false)
	f.Add([]byte(`{"pods":[null],"steps":[null],"config":{"featureGates":{"a":1}}}`), false)
	f.Fuzz(func(t *testing.T, data []byte, isYAML bool) {
		var (
			trace *Trace
			err   error
		)
		cost.Within(t, len(data), func() {
			if isYAML {
				data, err = fromYAML(data)
			}
			if err == nil {
				trace, err = Decode(data)
			}
		})
		if err != nil {
			if len(err.Error()) > 100_000 {
				t.Errorf("%d bytes of error text: %.200q", len(err.Error()), err)
			}
			return
		}
		// What was accepted can be gone through.
		w := newWorld(trace.Scenario)
		for i := range trace.Scenario.Steps {
			w.begin(&trace.Scenario.Steps[i])
			if w.now.Before(trace.Scenario.StartTime.Time) {
				t.Fatal("time goes backwards")
			}
			for _, p := range w.ActivePods() {
				if p.UID == "" {
					t.Fatal("a pod without uid")
				}
			}
		}
		_ = trace.Scenario.tell(&Difference{Step: len(trace.Scenario.Steps)})
	})
}

// Pods with limits and without requests had no requests in a replay: another pod was evicted than by the daemon.
func TestAReplayEvictsAnotherPodThanTheDaemon(t *testing.T) {
	for name, c := range map[string]struct {
		spec            string
		memory, storage int64
		class           eviction.QoSClass
	}{
		"limits of a container":       {"{containers: [{name: c, resources: {limits: {memory: 1Mi, cpu: 1, ephemeral-storage: 3Mi}}}]}", 1 << 20, 3 << 20, "Guaranteed"},
		"a request of one's own":      {"{containers: [{name: c, resources: {requests: {memory: 1Mi}, limits: {memory: 2Mi}}}]}", 1 << 20, 0, "Burstable"},
		"limits of an init container": {"{initContainers: [{name: i, resources: {limits: {memory: 2Mi}}}], containers: [{name: c, resources: {limits: {memory: 1Mi}}}]}", 2 << 20, 0, "Burstable"},
		"limits of a sidecar":         {"{initContainers: [{name: i, restartPolicy: Always, resources: {limits: {memory: 2Mi}}}], containers: [{name: c, resources: {limits: {memory: 1Mi}}}]}", 3 << 20, 0, "Burstable"},
		"limits of the pod":           {"{resources: {limits: {memory: 4Mi, cpu: 1}}, containers: [{name: c}]}", 4 << 20, 0, "Guaranteed"},
		"limits of both":              {"{resources: {limits: {memory: 4Mi}}, containers: [{name: c, resources: {limits: {memory: 1Mi, hugepages-2Mi: 2Mi}}}]}", 1 << 20, 0, "Burstable"},
		"huge pages":                  {"{containers: [{name: c, resources: {limits: {hugepages-2Mi: 2Mi}}}]}", 0, 0, "BestEffort"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := "[{metadata: {name: a, uid: a}, spec: " + c.spec + "}]"
			other := strings.ReplaceAll(pod, "a, uid: a", "b, uid: b")
			s := scenario(t, "pods: "+pod+"\nsteps: [{summary: {}, updatePods: "+pod+", addPods: "+other+", admit: "+other+"}]")
			rules := pods.Rules{PodLevelResources: true}
			for where, all := range map[string][]*v1.Pod{"pods": s.Pods, "updatePods": s.Steps[0].UpdatePods, "addPods": s.Steps[0].AddPods, "admit": s.Steps[0].Admit} {
				for _, p := range all {
					memory, storage := rules.Request(p, v1.ResourceMemory), rules.Request(p, v1.ResourceEphemeralStorage)
					if class := rules.QoSClass(p); memory != c.memory || storage != c.storage || class != c.class {
						t.Errorf("%s: requests %d and %d, class %s, want %d and %d, %s", where, memory, storage, class, c.memory, c.storage, c.class)
					}
				}
			}
		})
	}
}
