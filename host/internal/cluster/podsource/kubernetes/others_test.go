package kubernetes

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
)

// A pod over its emptyDir's limit was evicted by the kubelet, and evictd had no record of it.
func TestEvictionsByOthersAreRecognized(t *testing.T) {
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	low := "The node was low on resource: memory. Threshold quantity: 1Gi, available: 900Mi. "
	over := `Usage of EmptyDir volume "scratch" exceeds the limit "20Mi". `
	target := func(reason, message string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(at)})
		}
	}
	failed := func(reason, message string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = v1.PodFailed, reason, message
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionFalse, LastTransitionTime: metav1.NewTime(at)})
		}
	}
	deleted := func(p *v1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(at)) }
	gone := func(p *v1.Pod) { p.Name = "gone" }
	marked := func(mark time.Time) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Annotations = map[string]string{victim.AnnotationEvicted: mark.UTC().Format(time.RFC3339Nano)}
		}
	}
	type changes = []func(*v1.Pod)
	for name, c := range map[string]struct {
		changes changes
		// want holds who, the signal and the message; "" for no eviction.
		want string
	}{
		"by the kubelet for its limit":            {changes{failed("Evicted", over)}, "the kubelet||" + over},
		"by the kubelet for memory":               {changes{failed("Evicted", low), target("TerminationByKubelet", low)}, "the kubelet|memory.available|" + low},
		"by the kubelet, and drained later":       {changes{failed("Evicted", low), target("EvictionByEvictionAPI", "Eviction API: evicting"), deleted}, "the kubelet|memory.available|" + low},
		"by the kubelet, with a forged mark":      {changes{failed("Evicted", over), marked(time.Time{})}, "the kubelet||" + over},
		"by the kubelet, with a copied mark":      {changes{failed("Evicted", low), target("TerminationByKubelet", low), marked(at.Add(-time.Minute))}, "the kubelet|memory.available|" + low},
		"by the kubelet at the node's shutdown":   {changes{failed("Terminated", "Pod was terminated in response to imminent node shutdown."), target("TerminationByKubelet", "shutdown")}, "the kubelet||shutdown"},
		"by evictd":                               {changes{failed("Evicted", low), target("TerminationByKubelet", low), marked(at.Add(time.Millisecond))}, ""},
		"by the kubelet, which has yet to end it": {changes{target("TerminationByKubelet", low)}, ""},
		"drained":                          {changes{target("EvictionByEvictionAPI", "Eviction API: evicting"), deleted}, "the eviction API||Eviction API: evicting"},
		"drained, gone at once":            {changes{target("EvictionByEvictionAPI", "Eviction API: evicting"), gone}, "the eviction API||Eviction API: evicting"},
		"not drained, the deletion failed": {changes{target("EvictionByEvictionAPI", "Eviction API: evicting")}, ""},
		"drained when it had ended":        {changes{failed("", ""), target("EvictionByEvictionAPI", "Eviction API: evicting"), deleted}, ""},
		"preempted":                        {changes{target("PreemptionByScheduler", "to accommodate a higher priority pod"), deleted}, "the scheduler||to accommodate a higher priority pod"},
		"from a tainted node":              {changes{target("DeletionByTaintManager", "deleting due to NoExecute taint"), deleted}, "the taint manager||deleting due to NoExecute taint"},
		"collected":                        {changes{failed("", ""), target("DeletionByPodGC", "node no longer exists")}, "pod garbage collection||node no longer exists"},
		"for a reason of another program":  {changes{target("Mine", "because"), deleted}, ""},
		"deleted":                          {changes{deleted}, ""},
		"failed":                           {changes{failed("", "")}, ""},
		"with the longest message, in one's terms": {changes{failed("Evicted", strings.Repeat("\x1b[31m", 1<<12))}, "the kubelet||" + strings.Repeat("\x1b[31m", 1<<12)[:1<<10]},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Namespace: "shop", Name: "report"}}
		for _, change := range c.changes {
			change(p)
		}
		d, got := (&entry{api: p}).byOther(p.Name == "gone"), ""
		if d != nil {
			got = d.By + "|" + d.Victim.Signal + "|" + d.Victim.Message
			if d.Kind != decision.KindOther || !d.Time.Equal(at) || d.Victim.UID != "u" || decision.IDTime(d.ID).Unix() != at.Unix() {
				t.Errorf("%s: %+v of %+v, want it at %v", name, d, d.Victim, at)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// An eviction is noted once, whatever is received of its pod, and with the message that it has.
func TestAnEvictionIsNotedOnce(t *testing.T) {
	k, noted := newKnown(pods.Rules{}), []string{}
	k.record = func(all []*decision.Decision) {
		for _, d := range all {
			noted = append(noted, d.Victim.UID+" "+d.Victim.Message)
		}
	}
	evicted := func(uid, name string) *v1.Pod {
		return decoded(apiPod(uid, name, func(p *v1.Pod) { p.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "low"} }), nil)
	}
	drained := decoded(apiPod("4", "d", func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "evicting"}}
	}), nil)
	for _, step := range []struct {
		do   func() error
		want []string
	}{
		{func() error { return k.Replace([]any{apiPod("1", "a"), apiPod("2", "b")}, "1") }, nil},
		{func() error { return k.Update(evicted("1", "a")) }, []string{"1 low"}},
		{func() error { return k.Update(evicted("1", "a")) }, nil},
		{func() error { return k.Replace([]any{evicted("1", "a"), evicted("2", "b")}, "2") }, []string{"2 low"}},
		{func() error { return k.Replace([]any{evicted("1", "a"), evicted("2", "b")}, "3") }, nil},
		{func() error { return k.Delete(evicted("1", "a")) }, nil},
		{func() error { return k.Update(evicted("3", "a")) }, []string{"3 low"}}, // a StatefulSet's next pod
		{func() error { return k.Update(drained) }, nil},
		{func() error { return k.Delete(drained) }, []string{"4 evicting"}},
	} {
		noted = nil
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, noted); diff != "" {
			t.Error(diff)
		}
	}
}
