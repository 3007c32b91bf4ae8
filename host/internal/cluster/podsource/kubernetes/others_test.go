package kubernetes

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/pods"
)

// An eviction is noted once, whatever is received of its pod, and with the message that it has.
func TestAnEvictionIsNotedOnce(t *testing.T) {
	k, noted := newKnown(pods.Rules{}), []string{}
	k.evicted = func(p *v1.Pod, deleted bool) *decision.Decision {
		if p.Status.Reason != "Evicted" && !deleted {
			return nil
		}
		return &decision.Decision{Reason: fmt.Sprint(p.UID, " ", p.Status.Message)}
	}
	k.record = func(all []*decision.Decision) {
		for _, d := range all {
			noted = append(noted, d.Reason)
		}
	}
	evicted := func(uid, name string) *v1.Pod {
		return decoded(apiPod(uid, name, func(p *v1.Pod) { p.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "low"} }), nil)
	}
	failed := decoded(apiPod("4", "d", func(p *v1.Pod) { p.Status = v1.PodStatus{Phase: v1.PodFailed, Message: "is not kept"} }), nil)
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
		{func() error { return k.Update(failed) }, nil},
		{func() error { return k.Delete(failed) }, []string{"4 "}},
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
