package fence

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Nodes returns the writes to nodes, for an account that has its own conditions and taints. The
// node of the token keeps its name.
func Nodes() []Write {
	node := func(name string) *v1.Node {
		return &v1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "a"}, ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "labeler", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &metav1.Time{Time: time.Now().Add(-time.Hour)},
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata": {"f:labels": {".": {}, "f:zone": {}}}}`),
			}}},
			Spec:   v1.NodeSpec{Taints: []v1.Taint{{Key: "example.com/gpu", Effect: v1.TaintEffectNoSchedule}}},
			Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}, {Type: v1.NodeDiskPressure, Status: v1.ConditionFalse}}},
		}
	}
	write := func(name, subresource, body, refused string) Write {
		return Write{Name: name, Verb: "patch", Resource: "nodes", Subresource: subresource, Was: node(Node), Patch: types.StrategicMergePatchType, Body: body, Refused: refused}
	}
	const (
		ours      = `{"spec": {"taints": [{"key": "evictd.io/disk", "effect": "NoSchedule"}, {"key": "example.com/gpu", "effect": "NoSchedule"}]}}`
		condition = `{"status": {"conditions": [{"type": "evictd.io/Disk", "status": "True"}]}}`
		taints    = "evictd writes no taint but those whose key begins with evictd.io/"
		foreign   = "evictd writes no condition but those whose type begins with evictd.io/"
		metadata  = "evictd writes nothing of a node's metadata"
		effect    = "a taint of evictd's has the effect NoSchedule and no value"
		sizes     = "a condition of evictd's is True, False or Unknown, with a reason of 256 and a message of 1024 characters at most"
	)
	other := write("a condition of another node", "status", condition, "the node is not the one that the token is bound to")
	other.Was = node(Other)
	unbound := write("a token that is bound to nothing", "status", condition, "the node is not the one that the token is bound to")
	unbound.Token = Unbound
	gone := write("the node is deleted", "", "", "evictd neither makes nor removes a node")
	gone.Verb = "delete"
	own := func(condition string) string { return `{"status": {"conditions": [` + condition + `]}}` }
	taint := func(text string) string {
		return `{"spec": {"taints": [` + text + `, {"key": "example.com/gpu", "effect": "NoSchedule"}]}}`
	}
	var taintsMany, conditionsMany []string
	for i := range 65 {
		taintsMany = append(taintsMany, fmt.Sprintf(`{"key": "evictd.io/d%d", "effect": "NoSchedule"}`, i))
		conditionsMany = append(conditionsMany, fmt.Sprintf(`{"type": "evictd.io/D%d", "status": "True"}`, i))
	}
	const future = "a time of a condition is more than a day in the future"
	return []Write{
		write("a condition of now", "status", own(`{"type": "evictd.io/Disk", "status": "True", "lastTransitionTime": "`+time.Now().UTC().Format(time.RFC3339)+`"}`), ""),
		write("a condition in 2106", "status", own(`{"type": "evictd.io/Disk", "status": "True", "lastTransitionTime": "2106-02-07T06:28:15Z"}`), future),
		write("a heartbeat in 2106", "status", own(`{"type": "evictd.io/Disk", "status": "True", "lastHeartbeatTime": "2106-02-07T06:28:15Z"}`), future),
		write("managedFields emptied", "", `{"metadata": {"managedFields": [{}]}}`, managers),
		write("another's managedFields removed", "", `{"metadata": {"managedFields": [`+managed("evictd", "2026-01-01T00:00:00Z", "f:spec")+`]}}`, managers),
		write("managedFields of another's added", "", `{"metadata": {"managedFields": [`+managed("mine", "2026-01-01T00:00:00Z", "f:metadata")+`]}}`, managers),
		write("a taint that ends the node's pods", "", taint(`{"key": "evictd.io/x", "effect": "NoExecute"}`), effect),
		write("a taint that sends pods elsewhere", "", taint(`{"key": "evictd.io/x", "effect": "PreferNoSchedule"}`), effect),
		write("a taint with a value", "", taint(`{"key": "evictd.io/x", "effect": "NoSchedule", "value": "data"}`), effect),
		write("a taint with a time", "", taint(`{"key": "evictd.io/x", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}`), effect),
		write("65 taints", "", taint(strings.Join(taintsMany, ", ")), effect),
		write("the effect of a foreign taint", "", `{"spec": {"taints": [{"key": "example.com/gpu", "effect": "NoExecute"}]}}`, taints),
		write("a condition of 500 kB", "status", own(`{"type": "evictd.io/Disk", "status": "True", "message": "`+strings.Repeat("x", 500<<10)+`"}`), sizes),
		write("a condition with a long reason", "status", own(`{"type": "evictd.io/Disk", "status": "True", "reason": "`+strings.Repeat("x", 257)+`"}`), sizes),
		write("a condition that is Perhaps", "status", own(`{"type": "evictd.io/Disk", "status": "Perhaps"}`), sizes),
		write("65 conditions", "status", own(strings.Join(conditionsMany, ", ")), sizes),
		write("a foreign condition's message", "status", own(`{"type": "Ready", "message": "x"}`), foreign),
		write("an address of the node", "status", `{"status": {"addresses": [{"type": "ExternalIP", "address": "192.0.2.66"}]}}`, "evictd writes nothing of a node's status but conditions"),
		write("the node's pods' network", "", `{"spec": {"podCIDR": "192.0.2.0/24"}}`, "evictd writes nothing of a node's spec but taints"),
		write("a finalizer", "", `{"metadata": {"finalizers": ["example.com/mine"]}}`, metadata),
		write("a condition of its own", "status", condition, ""),
		write("a taint of its own", "", ours, ""),
		other,
		unbound,
		gone,
		write("a foreign taint", "", `{"spec": {"taints": [{"key": "example.com/mine", "effect": "NoExecute"}]}}`, taints),
		write("a foreign taint taken away", "", `{"spec": {"taints": null}}`, taints),
		write("no more pods here", "", `{"spec": {"unschedulable": true}}`, "evictd writes nothing of a node's spec but taints"),
		write("a condition of the kubelet's", "status", `{"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}}`, foreign),
		write("a condition of a problem detector's", "status", `{"status": {"conditions": [{"type": "KernelDeadlock", "status": "True"}]}}`, foreign),
		write("a condition taken away", "status", `{"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}}`, foreign),
		write("the capacity", "status", `{"status": {"capacity": {"cpu": "1k"}}}`, "evictd writes nothing of a node's status but conditions"),
		write("a label", "", `{"metadata": {"labels": {"zone": "b"}}}`, metadata),
		write("an annotation", "status", `{"metadata": {"annotations": {"example.com/mine": "1"}}}`, metadata),
	}
}
