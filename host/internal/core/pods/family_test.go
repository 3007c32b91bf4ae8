package pods

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/shared/eviction"
)

// made is a pod of a controller, kind/name, or without one.
func made(namespace, name, kind, owner string, labels map[string]string) Pod {
	api := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	if kind != "" {
		api.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, UID: "differs", Controller: new(true)}}
	}
	return Pod{API: api, Row: eviction.Pod{Namespace: namespace, Name: name}}
}

// A replacement counts as one whatever its owner changes in the template, and a stranger does not.
func TestWhoReplacesWhom(t *testing.T) {
	first := made("shop", "cart-7d9f8b6c5-x2x4z", "ReplicaSet", "cart-7d9f8b6c5", nil)
	for name, c := range map[string]struct {
		first, next Pod
		same        bool
	}{
		"the same ReplicaSet":             {first, made("shop", "cart-7d9f8b6c5-bbbbb", "ReplicaSet", "cart-7d9f8b6c5", nil), true},
		"after a rollout":                 {first, made("shop", "cart-5b5b5b5b5b-bbbbb", "ReplicaSet", "cart-5b5b5b5b5b", nil), true},
		"with another label":              {first, made("shop", "cart-7d9f8b6c5-bbbbb", "ReplicaSet", "cart-7d9f8b6c5", map[string]string{"pod-template-hash": "new"}), true},
		"of another Deployment":           {first, made("shop", "till-7d9f8b6c5-bbbbb", "ReplicaSet", "till-7d9f8b6c5", nil), false},
		"of another namespace":            {first, made("mall", "cart-7d9f8b6c5-bbbbb", "ReplicaSet", "cart-7d9f8b6c5", nil), false},
		"of another kind":                 {first, made("shop", "cart-0", "StatefulSet", "cart", nil), false},
		"the next run of a CronJob":       {made("shop", "sum-29384710-abcde", "Job", "sum-29384710", nil), made("shop", "sum-29384711-vwxyz", "Job", "sum-29384711", nil), true},
		"the next pod of a Job":           {made("shop", "sum-x2x4z", "Job", "sum", nil), made("shop", "sum-bbbbb", "Job", "sum", nil), true},
		"a StatefulSet's pod":             {made("shop", "db-0", "StatefulSet", "db", nil), made("shop", "db-0", "StatefulSet", "db", nil), true},
		"of a DaemonSet with a number":    {made("shop", "log-2-x2x4z", "DaemonSet", "log-2", nil), made("shop", "log-3-x2x4z", "DaemonSet", "log-3", nil), false},
		"a bare pod of the same name":     {made("shop", "runner", "", "", nil), made("shop", "runner", "", "", nil), true},
		"a bare pod with generated names": {made("shop", "runner-x2x4z", "", "", nil), made("shop", "runner-bbbbb", "", "", nil), true},
		"bare pods with numbers":          {made("shop", "load-1", "", "", nil), made("shop", "load-2", "", "", nil), false},
		"bare pods with other words":      {made("shop", "runner-alpha", "", "", nil), made("shop", "runner-omega", "", "", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := c.first.Family()
			b, controlled := c.next.Family()
			if (a == b) != c.same || controlled != (metav1.GetControllerOfNoCopy(c.next.API) != nil) {
				t.Errorf("families %q and %q (with a controller: %t), want the same: %t", a, b, controlled, c.same)
			}
		})
	}
}
