package fence

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	low   = "The node was low on resource: memory. Threshold quantity: 1Gi, available: 900Mi. "
	using = "Container main-container was using 2097152Ki, request is 0, has larger consumption of memory. "
)

// eviction returns the patch of an eviction, after the given changes.
func eviction(change ...func(metadata, status, disruption object)) string {
	disruption := object{
		"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": low,
		"observedGeneration": 1, "lastTransitionTime": metav1.Now(),
	}
	metadata := object{"uid": "UID", "annotations": object{"evictd.io/evicted": "2026-01-01T00:00:00Z"}}
	status := object{"phase": "Failed", "reason": "Evicted", "message": low, "conditions": []any{disruption}}
	for _, c := range change {
		c(metadata, status, disruption)
	}
	body, err := json.Marshal(object{"metadata": metadata, "status": status})
	if err != nil {
		panic(err) // made of what is above
	}
	return string(body)
}

type object = map[string]any

func reported(message string) func(_, status, disruption object) {
	return func(_, status, disruption object) { status["message"], disruption["message"] = message, message }
}

// limited sets the message of a pod that exceeds its own limit, for which the kubelet writes no
// condition.
func limited(message string) func(_, status, _ object) {
	return func(_, status, _ object) {
		status["message"] = message
		delete(status, "conditions")
	}
}

func status(key string, value any) func(_, status, _ object) {
	return func(_, status, _ object) { status[key] = value }
}

func metadata(key string, value any) func(metadata, _, _ object) {
	return func(metadata, _, _ object) { metadata[key] = value }
}

func annotated(key string, value any) func(metadata, _, _ object) {
	return func(metadata, _, _ object) { metadata["annotations"].(object)[key] = value }
}

func disruption(key string, value any) func(_, _, disruption object) {
	return func(_, _, disruption object) { disruption[key] = value }
}

func condition(kind, value string) func(_, status, _ object) {
	return func(_, status, _ object) {
		status["conditions"] = append(status["conditions"].([]any), object{"type": kind, "status": value})
	}
}

// labeled marks the pod with the label instead of the annotation, for lack of room.
func labeled(metadata, _, _ object) {
	delete(metadata, "annotations")
	metadata["labels"] = object{"evictd.io/evicted": "20260101T000000.000000000Z"}
}

// marked has the owner of a pod mark it beforehand, like evictd does.
func marked(p *v1.Pod) {
	p.Labels["evictd.io/evicted"] = "20300101T000000.000000000Z"
	p.Annotations["evictd.io/evicted"] = strings.Repeat("x", 200)
}

func noCondition(_, status, _ object) { delete(status, "conditions") }

// killed makes a pod one that a signal ended before its eviction was recorded.
func killed(exitCode int32, reason string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		ended(v1.PodFailed, "")(p)
		p.Status.ContainerStatuses[0].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: exitCode, Reason: reason}}
	}
}

// crowd adds n short keys to m: the API server takes 256 KiB of annotations.
func crowd(m map[string]string, n int) {
	for i := range n {
		m[strconv.FormatInt(int64(i), 36)] = ""
	}
}

// annotatedBeyond and labeledBeyond add n annotations or labels to a pod.
func annotatedBeyond(n int) func(*v1.Pod) { return func(p *v1.Pod) { crowd(p.Annotations, n) } }
func labeledBeyond(n int) func(*v1.Pod)   { return func(p *v1.Pod) { crowd(p.Labels, n) } }

// managedBy adds n programs to a pod's managedFields, as its owner can.
func managedBy(n int) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for i := range n {
			p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: strconv.Itoa(i), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &metav1.Time{Time: time.Unix(0, 0)},
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:app":{}}}}`),
			})
		}
	}
}

// deletion returns the body of a DELETE request.
func deletion(graceSeconds int) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": %d, "preconditions": {"uid": "UID"}}`, graceSeconds)
}

// ended sets the final phase of a pod and its reason.
func ended(phase v1.PodPhase, reason string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Status.Phase, p.Status.Reason = phase, reason }
}

func evicted(p *v1.Pod) {
	ended(v1.PodFailed, "Evicted")(p)
	p.Status.Message = low
	p.Annotations["evictd.io/evicted"] = "2026-01-01T00:00:00Z"
	p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonTerminationByKubelet, Message: low,
	})
}

func deleted(p *v1.Pod) {
	now := metav1.Now()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, new(int64)
}

func static(p *v1.Pod) {
	p.Annotations["kubernetes.io/config.mirror"] = "0f"
	p.Finalizers = nil
	controller := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: Node, UID: "0f", Controller: &controller}}
}

func critical(p *v1.Pod) {
	p.Spec.PriorityClassName, p.Spec.Priority = "system-node-critical", new(int32(2000001000))
}

// large makes a pod as large as real pods get.
func large(p *v1.Pod) {
	for i := range 30 {
		name := fmt.Sprintf("c%d", i)
		c, s := p.Spec.Containers[0], p.Status.ContainerStatuses[0]
		c.Name, s.Name = name, name
		for j := range 50 {
			c.Env = append(c.Env, v1.EnvVar{Name: fmt.Sprintf("E%d", j), Value: strings.Repeat("v", 100)})
		}
		p.Spec.Containers, p.Status.ContainerStatuses = append(p.Spec.Containers, c), append(p.Status.ContainerStatuses, s)
	}
	for i := range 200 {
		p.Annotations[fmt.Sprintf("example.com/a%d", i)] = strings.Repeat("v", 500)
	}
}

// Pods returns the writes to pods: those that evictd makes, and foreign ones.
func Pods() []Write {
	own := []Write{
		{Name: "an eviction"},
		{Name: "an eviction, the token bound to the node", Token: NodeBound},
		{Name: "an eviction told again", Was: pod(Node, evicted)},
		{Name: "an eviction that the API server has heard of before its answer was lost", Was: pod(Node, evicted), Body: eviction(annotated("evictd.io/evicted", "2026-01-01T00:00:01Z"))},
		{Name: "an eviction without the generation", Body: eviction(func(_, _, d object) { delete(d, "observedGeneration") })},
		{Name: "an eviction of a pod without annotations", Was: pod(Node, func(p *v1.Pod) { p.Annotations = nil })},
		{Name: "an eviction of a pod that has not started", Was: pod(Node, func(p *v1.Pod) { p.Status = v1.PodStatus{Phase: v1.PodPending, QOSClass: v1.PodQOSBestEffort} })},
		{Name: "an eviction of a pod that SIGTERM had ended first", Was: pod(Node, killed(143, "Error"))},
		{Name: "an eviction of a pod that SIGKILL had ended first", Was: pod(Node, killed(137, "Error"))},
		{Name: "an eviction with the name of its record", Body: eviction(annotated("evictd.io/record", "20260101T000000.000Z-00000000"))},
		{Name: "an eviction with a line for its owner", Body: eviction(annotated("evictd.io/why", strings.Repeat("x", 400)))},
		{Name: "an eviction by its label", Body: eviction(labeled)},
		{Name: "an eviction by its label, without a condition", Body: eviction(labeled, noCondition)},
		{Name: "an eviction by its label told again", Was: pod(Node, evicted, func(p *v1.Pod) { p.Labels["evictd.io/evicted"] = "20260101T000000.000000000Z" }), Body: eviction(labeled)},
		{Name: "an eviction by its label, without a condition, told again", Was: pod(Node, ended(v1.PodFailed, "Evicted"), func(p *v1.Pod) {
			p.Status.Message, p.Labels["evictd.io/evicted"] = low, "20260101T000000.000000000Z"
		}), Body: eviction(labeled, noCondition)},
		{Name: "an eviction of a pod that its owner marked", Was: pod(Node, marked)},
		{Name: "an eviction by its label, of a pod that its owner marked", Was: pod(Node, marked), Body: eviction(labeled)},
		{Name: "an eviction by its label, without a condition, of a pod that its owner marked", Was: pod(Node, marked), Body: eviction(labeled, noCondition)},
		{Name: "an eviction of a pod that its owner marked, that SIGTERM had ended first", Was: pod(Node, marked, killed(143, "Error"))},
		{Name: "an eviction by its label, of a pod with 65,000 annotations", Was: pod(Node, annotatedBeyond(65000)), Body: eviction(labeled)},
		{Name: "an eviction of a pod with 255 annotations", Was: pod(Node, annotatedBeyond(254))},
		{Name: "an eviction of a pod with 5,000 managers", Was: pod(Node, managedBy(5000))},
		{Name: "an eviction of a pod with 60,000 labels", Was: pod(Node, labeledBeyond(60000))},
		{Name: "an eviction of a pod of 150 containers", Body: eviction(reported(low + strings.Repeat(using, 150)))},
		{Name: "for a pod's own request", Body: eviction(reported(low + "Pod web.7 was using 2Gi, request is 1Gi, has larger consumption of memory. "))},
		{Name: "a negative figure", Body: eviction(reported("The node was low on resource: pids. Threshold quantity: 10, available: -1. "))},
		{Name: "an eviction of a large pod", Was: pod(Node, large)},
		{Name: "an eviction of a pod that was disrupted before", Was: pod(Node, func(p *v1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionFalse, Reason: "EvictionByEvictionAPI"})
		})},
		{Name: "for a vendor's signal", Body: eviction(reported("The node was low on resource: acme.example/nvme-spare. Threshold quantity: 10, available: 9. "))},
		{Name: "for an emptyDir", Body: eviction(limited(`Usage of EmptyDir volume "cache" exceeds the limit "1Gi". `))},
		{Name: "for the pod's ephemeral storage", Body: eviction(limited("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "))},
		{Name: "for a container's ephemeral storage", Body: eviction(limited(`Container main exceeded its local ephemeral storage limit "1Gi". `))},
	}
	return patches(append(own, foreign()...))
}

// Deletions returns deletions of pods where evictd may delete those whose eviction is refused.
func Deletions() []Write {
	gone := func(name, refused string, graceSeconds int, p *v1.Pod) Write {
		return Write{Name: name, Verb: "delete", Resource: "pods", Was: p, Body: deletion(graceSeconds), Refused: refused}
	}
	elsewhere := gone("a pod is deleted with a token that is bound to nothing", "the token is bound to none", 30, pod(Node))
	elsewhere.Token = Unbound
	return []Write{
		gone("a pod whose eviction is refused is deleted", "", 30, pod(Node)),
		gone("the shortest deletion", "", 1, pod(Node)),
		gone("a pod is deleted at once", noGrace, 0, pod(Node)),
		elsewhere,
		gone("a pod of another node is deleted", notHere, 30, pod(Other)),
		gone("a static pod is deleted", "evictd evicts no static pod", 30, pod(Node, static)),
		gone("a critical pod is deleted", "evictd evicts no critical pod", 30, pod(Node, critical)),
		gone("a pod that has failed is deleted", hasEnded, 30, pod(Node, killed(143, "Error"))),
		gone("a pod that was evicted is deleted", hasEnded, 30, pod(Node, evicted)),
	}
}

// NoDeletions returns the same where evictd deletes no pod.
func NoDeletions() []Write {
	all := Deletions()
	for i := range all {
		all[i].Refused = notStatus
	}
	return all
}

// patches fills in the defaults: the patch of an eviction of a pod on Node.
func patches(writes []Write) []Write {
	for i := range writes {
		w := &writes[i]
		if w.Verb == "" {
			w.Verb = "patch"
		}
		if w.Verb != "patch" {
			continue
		}
		if w.Resource == "" {
			w.Resource, w.Subresource = "pods", "status"
		}
		if w.Was == nil {
			w.Was = pod(Node)
		}
		if w.Patch == "" {
			w.Patch = types.StrategicMergePatchType
		}
		if w.Body == "" {
			w.Body = eviction()
		}
	}
	return writes
}

// The texts of the policies' refusals.
const (
	notStatus    = "evictd writes nothing of a pod but its status"
	notHere      = `the pod is on node "node-b", and the token is bound to "node-a"`
	notBound     = `the pod is on node "node-a", and the token is bound to none`
	hasEnded     = "the pod has ended already"
	notEvicted   = "evictd makes a pod Failed for the reason Evicted, and nothing else"
	notToldSo    = "the message of the status has to be one that the kubelet has for an eviction"
	notDisrupted = "the condition DisruptionTarget has to be True for the reason TerminationByKubelet, with the message of the status"
	notLimited   = "for a limit of the pod's own it has to stay"
	notAnnotated = "the annotation evictd.io/evicted, or the label, has to be set to another value"
	noGrace      = "evictd deletes a pod with a grace period of at least 1 second"
	noLabel      = "evictd writes no label but evictd.io/evicted"
	conditions   = "evictd writes no condition but DisruptionTarget"
	statusStays  = "evictd writes nothing of the status but phase, reason, message and conditions"
	noAnnotation = "evictd writes no annotation but evictd.io/evicted"
	notNow       = "a time of the condition DisruptionTarget is not between the pod's creation and now"
	metaStays    = "evictd writes nothing of the metadata but an annotation or a label"
)

// foreign returns writes that evictd never makes.
func foreign() []Write {
	running := object{"name": "main", "ready": true, "image": "example.com/web:1", "imageID": "sha256:1", "restartCount": 7}
	with := func(name, refused string, change ...func(metadata, status, disruption object)) Write {
		return Write{Name: name, Refused: refused, Body: eviction(change...)}
	}
	was := func(name, refused string, p *v1.Pod) Write { return Write{Name: name, Refused: refused, Was: p} }
	early := func(w Write) Write {
		w.Early = true
		return w
	}
	on := func(name, verb, subresource, body string) Write {
		w := Write{Name: name, Verb: verb, Resource: "pods", Subresource: subresource, Was: pod(Node), Body: body, Refused: notStatus}
		if verb == "patch" {
			w.Patch = types.StrategicMergePatchType
		}
		return w
	}
	const grown = `{"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}`
	const debugger = `{"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}}`
	const byAPI = `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "NAME", "namespace": "default"}}`
	const made = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "NAME", "namespace": "default"}, "spec": {"nodeName": "node-a", "containers": [{"name": "main", "image": "example.com/web:1"}]}}`
	second := with("a second DisruptionTarget", notDisrupted, func(_, status, disruption object) {
		all := []any{}
		for _, c := range pod(Node).Status.Conditions {
			all = append(all, c)
		}
		status["conditions"] = append(all, disruption, object{"type": "DisruptionTarget", "status": "False"})
	})
	second.Patch = types.MergePatchType
	create := on("a pod is made", "create", "", made)
	create.Was = nil
	return []Write{
		// Which way.
		on("the pod itself is written", "patch", "", `{"metadata": {"annotations": {"evictd.io/evicted": "now"}}}`),
		early(on("the pod is resized", "patch", "resize", grown)),
		on("a debugger is put in", "patch", "ephemeralcontainers", debugger),
		on("the pod is evicted by the API", "create", "eviction", byAPI),
		create,
		// Which pod.
		was("a pod of another node", notHere, pod(Other)),
		was("a pod without a node", `the pod is on node ""`, pod("")),
		{Name: "a token of a pod without a node", Token: Unscheduled, Refused: notBound},
		{Name: "a token that is bound to nothing", Token: Unbound, Refused: notBound},
		{Name: "a token that is bound to nothing, a pod without a node", Token: Unbound, Was: pod(""), Refused: "the token is bound to none"},
		was("a static pod", "evictd evicts no static pod", pod(Node, static)),
		was("a critical pod", "evictd evicts no critical pod", pod(Node, critical)),
		was("a pod that is being deleted", "the pod is being deleted already", pod(Node, deleted)),
		was("a pod that was evicted and has failed", hasEnded, pod(Node, evicted, ended(v1.PodFailed, ""))),
		was("a pod that has succeeded", hasEnded, pod(Node, ended(v1.PodSucceeded, ""))),
		was("a pod that has failed by itself", hasEnded, pod(Node, killed(1, "Error"))),
		was("a pod that was out of memory", hasEnded, pod(Node, killed(137, "OOMKilled"))),
		was("a pod that has failed without a container's status", hasEnded, pod(Node, ended(v1.PodFailed, ""), func(p *v1.Pod) { p.Status.ContainerStatuses = nil })),
		was("a pod that the kubelet has evicted", hasEnded, pod(Node, ended(v1.PodFailed, "Evicted"))),
		was("a pod that the kubelet has evicted by SIGKILL", hasEnded, pod(Node, killed(137, "Error"), ended(v1.PodFailed, "Evicted"))),
		was("a pod that the kubelet has evicted, marked by its owner", hasEnded, pod(Node, marked, ended(v1.PodFailed, "Evicted"), func(p *v1.Pod) { p.Status.Message = low + using })),
		was("a pod that has failed by itself, marked by its owner", hasEnded, pod(Node, marked, killed(1, "Error"))),
		was("a pod that was over its deadline", hasEnded, pod(Node, ended(v1.PodFailed, "DeadlineExceeded"))),
		with("a condition in 2106", notNow, disruption("lastTransitionTime", "2106-02-07T06:28:15Z")),
		with("a condition the day after tomorrow", notNow, disruption("lastTransitionTime", metav1.NewTime(time.Now().Add(49*time.Hour)))),
		with("a condition from before the pod", notNow, disruption("lastTransitionTime", "1970-01-02T00:00:00Z")),
		with("a condition probed in 2106", notNow, disruption("lastProbeTime", "2106-02-07T06:28:15Z")),
		// What it becomes.
		with("the pod succeeds", notEvicted, status("phase", "Succeeded")),
		with("the pod's phase stays", notEvicted, func(_, s, _ object) { delete(s, "phase") }),
		with("another reason", notEvicted, status("reason", "Preempted")),
		with("no reason", notEvicted, func(_, s, _ object) { delete(s, "reason") }),
		with("a message of one's own", notToldSo, reported("call this number")),
		with("a message that begins like the kubelet's", notToldSo, reported("The node was low on resource: ")),
		with("a message with a link", notToldSo, reported(low+"See http://evil.example. ")),
		with("a message with a link as the resource", notToldSo, reported("The node was low on resource: http://evil.example/x. ")),
		with("a message with two lines", notToldSo, reported("The node was low on resource: memory. \nCall this number. ")),
		with("a message with a text as the figure", notToldSo, reported("The node was low on resource: memory. Threshold quantity: call, this number: 0. ")),
		with("a message of 17 kB", notToldSo, reported(low+strings.Repeat(using, 190))),
		with("a limit's message that goes on", notToldSo, limited(`Usage of EmptyDir volume "cache" exceeds the limit "1Gi". Call this number. `)),
		with("a limit's message with a text", notToldSo, limited(`Container call this number exceeded its local ephemeral storage limit "1Gi". `)),
		with("no message", notToldSo, func(_, s, _ object) { delete(s, "message") }),
		with("DisruptionTarget with another message", notDisrupted, disruption("message", "another")),
		with("DisruptionTarget is False", notDisrupted, disruption("status", "False")),
		with("DisruptionTarget for another reason", notDisrupted, disruption("reason", "PreemptionByScheduler")),
		with("no DisruptionTarget", notDisrupted, func(_, s, _ object) { delete(s, "conditions") }),
		second,
		with("DisruptionTarget of a generation to come", notDisrupted, disruption("observedGeneration", int64(1)<<40)),
		with("a label without an eviction", notEvicted, labeled, func(_, s, _ object) { delete(s, "phase") }),
		with("a label and a wrong condition", notDisrupted, labeled, disruption("reason", "PreemptionByScheduler")),
		with("DisruptionTarget for a limit of the pod's own", notLimited, reported("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ")),
		with("no annotation", notAnnotated, func(m, _, _ object) { delete(m, "annotations") }),
		with("the annotation taken away", notAnnotated, annotated("evictd.io/evicted", nil)),
		with("an annotation that carries data out", noAnnotation, annotated("evictd.io/evicted", strings.Repeat("0", 101))),
		{Name: "an annotation that carries data out, of a pod that its owner marked", Refused: noAnnotation, Was: pod(Node, marked), Body: eviction(annotated("evictd.io/evicted", strings.Repeat("0", 101)))},
		with("an annotation that carries data out, beside the label", noAnnotation, labeled, metadata("annotations", object{"evictd.io/evicted": strings.Repeat("0", 101)})),
		{Name: "no mark but the owner's", Refused: notAnnotated, Was: pod(Node, marked), Body: eviction(func(m, _, _ object) { delete(m, "annotations") })},
		{Name: "the mark of the owner again", Refused: notAnnotated, Was: pod(Node, marked), Body: eviction(annotated("evictd.io/evicted", strings.Repeat("x", 200)))},
		{Name: "the marks of the owner taken away", Refused: notAnnotated, Was: pod(Node, marked), Body: eviction(annotated("evictd.io/evicted", nil), metadata("labels", object{"evictd.io/evicted": nil}))},
		{Name: "the mark of an eviction taken away", Refused: notAnnotated, Was: pod(Node, evicted), Body: eviction(annotated("evictd.io/evicted", nil))},
		{Name: "no DisruptionTarget, of a pod that its owner marked", Refused: notDisrupted, Was: pod(Node, marked), Body: eviction(noCondition)},
		// What stays.
		with("Ready becomes False", conditions, condition("Ready", "False")),
		with("a condition of one's own", conditions, condition("example.com/Mine", "True")),
		{Name: "conditions are replaced", Refused: conditions, Patch: types.MergePatchType},
		with("a container's status", statusStays, status("containerStatuses", []any{running})),
		with("the start time", statusStays, status("startTime", "2026-01-02T00:00:00Z")),
		early(with("the class", statusStays, status("qosClass", "Guaranteed"))),
		with("the generation that was seen", statusStays, status("observedGeneration", 7)),
		with("the resources", statusStays, status("resources", object{"requests": object{"cpu": "1"}})),
		with("the allocated resources", statusStays, status("allocatedResources", object{"cpu": "1"})),
		with("a resize", statusStays, status("resize", "Deferred")),
		early(with("an address", statusStays, status("podIP", "192.0.2.66"))),
		early(with("the host's address", statusStays, status("hostIP", "192.0.2.66"))),
		early(with("the nominated node", statusStays, status("nominatedNodeName", Other))),
		with("the start time taken away", statusStays, status("startTime", nil)),
		with("another annotation", noAnnotation, annotated("example.com/mine", "1")),
		with("a text in the place of the name of a record", noAnnotation, annotated("evictd.io/record", strings.Repeat("x", 101))),
		with("a text in the place of a line for the owner", noAnnotation, annotated("evictd.io/why", strings.Repeat("x", 401))),
		with("another annotation changed", noAnnotation, annotated("team", "b")),
		with("another annotation taken away", noAnnotation, annotated("team", nil)),
		{Name: "an annotation of a pod with 257", Refused: noAnnotation, Was: pod(Node, annotatedBeyond(256))},
		{Name: "an annotation of a pod with 65,000", Refused: noAnnotation, Was: pod(Node, annotatedBeyond(65000))},
		with("another annotation beside the label", noAnnotation, labeled, metadata("annotations", object{"example.com/mine": "1"})),
		with("a label changed", noLabel, metadata("labels", object{"app": "db"})),
		with("a label taken away", noLabel, metadata("labels", object{"app": nil})),
		with("a label of one's own", noLabel, metadata("labels", object{"example.com/mine": "1"})),
		with("a label of one's own below evictd.io", noLabel, metadata("labels", object{"evictd.io/mine": "1"})),
		{Name: "a label of a pod with 257", Refused: noLabel, Was: pod(Node, labeledBeyond(256)), Body: eviction(labeled)},
		{Name: "labels changed of a pod with 60,000", Refused: noLabel, Was: pod(Node, labeledBeyond(60000)), Body: eviction(metadata("labels", object{"app": "db"}))},
		with("a finalizer", metaStays, metadata("finalizers", []any{"example.com/mine"})),
		with("the finalizers taken away", metaStays, metadata("finalizers", nil)),
	}
}
