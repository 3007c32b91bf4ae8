package paritytest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/evictd/evictd/host/paritytest/embedded"
	"github.com/evictd/evictd/host/paritytest/generate"
	"github.com/evictd/evictd/host/paritytest/kubelet"
)

// Who has to make room for a critical pod, in which order, with which events and
// statuses, and what is left to say, is the same.
func TestPreemptionParity(t *testing.T) {
	rules := tally{}
	for _, gates := range []map[string]bool{
		nil,
		generate.WithoutPodLevelResources(),
	} {
		ours, stop, err := embedded.NewPreemptor(t.Context(), gates)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range int64(*preemptions) {
			comparePreemption(t, ours, *firstSeed+seed, gates, rules)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("preemption: %d pods that were not admitted, by rule:\n%s", 2**preemptions, rules)
}

func comparePreemption(t *testing.T, ours *embedded.Preemptor, seed int64, gates map[string]bool, rules tally) {
	t.Helper()
	r := generate.Rejection(seed, gates)
	want, err := theKubelet.Preempt(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ours.Preempt(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	rules.add(preemptionRules(r, want))
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(sameReason)); diff != "" {
		t.Errorf("seed %d, gates %v: kubelet - evictd +\n%s%s", seed, gates, diff, short(r))
	}
}

// sameReason: a reason is handed back as it was given.
func sameReason(a, b lifecycle.PredicateFailureReason) bool { return a == b }

func preemptionRules(r *kubelet.Rejection, want *kubelet.Response) []string {
	var out []string
	note := func(is bool, rule string) {
		if is {
			out = append(out, rule)
		}
	}
	note(len(want.Outcome.Evictions) == 1, "one pod makes room")
	note(len(want.Outcome.Evictions) > 1, "several pods make room")
	note(len(want.Outcome.Evictions) > 0 && len(r.Reasons) > 1, "several resources are lacking")
	note(want.Error != "", "all pods are not enough")
	note(len(want.Left) > 0, "reasons are left")
	note(len(r.KillErrors) > 0 && len(want.Outcome.Evictions) > 0, "kill errors in the node")
	for _, e := range want.Outcome.Evictions {
		note(e.KillError != "", "a kill fails, the rest goes on")
	}
	return out
}

func short(r *kubelet.Rejection) string {
	b, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.6000s", b)
}
