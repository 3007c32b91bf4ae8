package record

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// Take records a pod, its owner if it has one, the events of both, and other objects as given. If
// the pod is gone, it records the given one.
func Take(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, others ...any) (Fields, error) {
	now, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID {
		now, err = pod, nil
	}
	if err != nil {
		return nil, fmt.Errorf("record pod %s: %w", pod.Name, err)
	}
	raw := Fields{}
	if err := raw.object("pod", now); err != nil {
		return nil, err
	}
	for i, other := range others {
		if err := raw.object(fmt.Sprintf("others[%d]", i), other); err != nil {
			return nil, err
		}
	}
	names := []string{now.Name, "POD", now.Spec.NodeName, "NODE", now.Labels[appsv1.DefaultDeploymentUniqueLabelKey], "TEMPLATE", now.Labels[appsv1.ControllerRevisionHashLabelKey], "REVISION"}
	if owner := metav1.GetControllerOf(now); owner != nil {
		object, err := takeOwner(ctx, client, now.Namespace, *owner)
		if err != nil {
			return nil, err
		}
		raw.flatten("owner", object.Object)
		if err := raw.takeEvents(ctx, client, "ownerEvents", object); err != nil {
			return nil, err
		}
		names = append(names, owner.Name, "OWNER")
		if above := metav1.GetControllerOf(object); above != nil {
			names = append(names, above.Name, "OWNERS-OWNER")
		}
	}
	if err := raw.takeEvents(ctx, client, "events", now); err != nil {
		return nil, err
	}
	return raw.normal(stands(names...)), nil
}

// takeOwner fetches an object by its owner reference.
func takeOwner(ctx context.Context, client kubernetes.Interface, namespace string, owner metav1.OwnerReference) (*unstructured.Unstructured, error) {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("record owner %s: %w", owner.Name, err)
	}
	object := &unstructured.Unstructured{}
	path := []string{"/apis", version.Group, version.Version, "namespaces", namespace, strings.ToLower(owner.Kind) + "s", owner.Name}
	raw, err := client.CoreV1().RESTClient().Get().AbsPath(path...).DoRaw(ctx)
	if err == nil {
		err = object.UnmarshalJSON(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("record owner %s: %w", owner.Name, err)
	}
	return object, nil
}

// takeEvents adds each event about an object under its reason, with a number if the reason is
// repeated.
func (f Fields) takeEvents(ctx context.Context, client kubernetes.Interface, name string, about metav1.Object) error {
	listed, err := client.CoreV1().Events(about.GetNamespace()).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(about.GetUID())).String(),
	})
	if err != nil {
		return fmt.Errorf("record events of %s: %w", about.GetName(), err)
	}
	all := listed.Items
	slices.SortStableFunc(all, func(a, b v1.Event) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), a.FirstTimestamp.Compare(b.FirstTimestamp.Time), cmp.Compare(a.InvolvedObject.FieldPath, b.InvolvedObject.FieldPath))
	})
	seen := map[string]int{}
	for _, e := range all {
		reason := e.Reason
		if seen[e.Reason]++; seen[e.Reason] > 1 {
			reason = fmt.Sprintf("%s#%d", e.Reason, seen[e.Reason])
		}
		e.Name = "" // the object's name and a random number
		if err := f.object(name+"["+reason+"]", e); err != nil {
			return err
		}
	}
	return nil
}
