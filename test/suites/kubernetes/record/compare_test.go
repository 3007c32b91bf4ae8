package record

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompareTellsWhatIsNotAllowed(t *testing.T) {
	left := Fields{"pod.status.phase": "Failed", "pod.status.reason": "Evicted", "events[Evicted].source.component": "kubelet"}
	right := Fields{"pod.status.phase": "Failed", "events[Evicted].source.component": "evictd", "pod.metadata.annotations.a.example/b": "1"}
	for name, c := range map[string]struct {
		allowed []Allowed
		want    []string
		unused  int
	}{
		"nothing is allowed": {want: []string{"events[Evicted].source.component", "pod.metadata.annotations.a.example/b", "pod.status.reason"}},
		"all is": {allowed: []Allowed{
			{Path: "events[*].source.component", Left: "kubelet", Right: "evictd"},
			{Path: "pod.metadata.annotations.a.example/b", Left: "(none)"},
			{Path: "pod.status.reason"},
			{Path: "pod.status.message", Sometimes: true},
		}},
		"the other way round is not": {
			allowed: []Allowed{{Path: "events[*].source.component", Left: "evictd"}, {Path: "pod.*.reason"}, {Path: "pod.metadata.annotations.*.example/b"}},
			want:    []string{"events[Evicted].source.component"}, unused: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			unexpected, unused := Compare(left, right, c.allowed)
			var got []string
			for _, d := range unexpected {
				got = append(got, d.Path)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || len(unused) != c.unused {
				t.Errorf("differences (-want +got):\n%s%d allowed ones unused: %v, want %d", diff, len(unused), unused, c.unused)
			}
		})
	}
}

// Two pods of two Deployments, evicted at different times with different amounts, are
// alike when nothing of the eviction differs.
func TestWhatDiffersByNatureIsAlike(t *testing.T) {
	of := func(pod, owner, sibling, uid, at, amount string) Fields {
		f := Fields{}
		if err := f.object("pod", map[string]any{
			"metadata": map[string]any{"name": pod, "uid": uid, "resourceVersion": at, "ownerReferences": []any{map[string]any{"name": owner, "uid": uid}}},
			"status": map[string]any{
				"message":    "The node was low on resource: memory. Container hog was using " + amount + ", request is 0. ",
				"conditions": []any{map[string]any{"type": "Ready", "status": "False", "lastTransitionTime": at}},
			},
		}); err != nil {
			t.Fatal(err)
		}
		f.flatten("ownerEvents[SuccessfulCreate]", map[string]any{"message": "Created pod: " + sibling})
		return f.normal(stands(pod, "POD", owner, "OWNER", "status", "APP"))
	}
	a := of("hog-12345-abcde", "hog-12345", "hog-12345-fghij", "0b5ec5f3-90a3-4fb0-a3ab-4f1a9ee4e1f1", "2026-01-02T03:04:05Z", "1048576Ki")
	b := of("pig-67890-xyzzy", "pig-67890", "pig-67890-x0x0x", "1b5ec5f3-90a3-4fb0-a3ab-4f1a9ee4e1f2", "2026-02-02T03:04:06Z", "1148576Ki")
	if unexpected, _ := Compare(a, b, nil); len(unexpected) > 0 {
		t.Errorf("differences: %v", unexpected)
	}
	// An app called "status" does not change what fields are called.
	if a["pod.status.conditions[Ready].status"] != "False" || a["pod.metadata.ownerReferences[OWNER].name"] != "OWNER" || a["ownerEvents[SuccessfulCreate].message"] != "Created pod: SIBLING" {
		t.Errorf("fields: %v", a)
	}
}
