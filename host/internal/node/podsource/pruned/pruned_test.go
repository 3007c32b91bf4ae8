package pruned

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/test/fakes/stuffed"
)

func unmarshal(t testing.TB, w *pods.Wanted, pod *v1.Pod) *v1.Pod {
	t.Helper()
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	out := &v1.Pod{}
	if _, err := Unmarshal(w, out, raw, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

// A random pod within the bounds is decoded as if it was decoded as a whole and stripped.
func TestWhatIsDecodedIsWhatDecisionsNeed(t *testing.T) {
	w := &pods.Wanted{Ask: func() []string { return []string{"a", "b"} }}
	w.Grown()
	names := []v1.ResourceName{"cpu", "memory", "ephemeral-storage", "example.com/gpu"}
	keys := []string{"a", "b", "c", "kubernetes.io/config.mirror", "evictd.io/evicted", AnnotationCut}
	pick := func(r randfill.Continue) map[string]string {
		out := map[string]string{}
		for range r.Intn(4) {
			out[keys[r.Intn(len(keys))]] = fmt.Sprint(r.Intn(100))
		}
		return out
	}
	fill := randfill.NewWithSeed(36).NilChance(0.3).NumElements(0, 4).Funcs(
		func(q *resource.Quantity, r randfill.Continue) {
			*q = resource.MustParse(fmt.Sprintf("%dMi", r.Intn(1000)))
		},
		func(l *v1.ResourceList, r randfill.Continue) {
			*l = v1.ResourceList{}
			for range r.Intn(4) {
				(*l)[names[r.Intn(len(names))]] = *resource.NewQuantity(int64(r.Intn(1<<30)), resource.BinarySI)
			}
		},
		func(at *metav1.Time, r randfill.Continue) { *at = metav1.Unix(int64(r.Intn(1<<30)), 0) },
		func(at *metav1.MicroTime, r randfill.Continue) {
			*at = metav1.NewMicroTime(time.Unix(int64(r.Intn(1<<30)), 0))
		},
		func(c *v1.PodCondition, r randfill.Continue) {
			r.FillNoCustom(c)
			c.Type = []v1.PodConditionType{v1.PodReady, v1.DisruptionTarget, v1.PodScheduled}[r.Intn(3)]
		},
		func(m *metav1.ObjectMeta, r randfill.Continue) {
			r.FillNoCustom(m)
			m.Labels, m.Annotations = pick(r), pick(r)
			for i := range m.OwnerReferences {
				m.OwnerReferences[i].Controller = new(i == 1)
			}
		},
		func(v *v1.VolumeSource, r randfill.Continue) {
			switch r.Intn(4) {
			case 0:
				r.Fill(&v.EmptyDir)
			case 1:
				r.Fill(&v.Projected)
			case 2:
				r.Fill(&v.NFS)
			case 3:
				r.Fill(&v.Secret)
			}
		},
		func(i *intstr.IntOrString, r randfill.Continue) { *i = intstr.FromInt32(r.Int31n(1 << 15)) },
		func(p *v1.PodPhase, r randfill.Continue) { *p = []v1.PodPhase{v1.PodRunning, v1.PodPending}[r.Intn(2)] },
		func(s *string, r randfill.Continue) { *s = strings.Repeat("s", 1+r.Intn(60)) },
	)
	for n := range 500 {
		pod := &v1.Pod{}
		fill.Fill(pod)
		raw, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		whole := &v1.Pod{}
		if err := whole.Unmarshal(raw); err != nil {
			t.Fatal(err)
		}
		want := wantedOf(stripped(whole, w))
		if diff := cmp.Diff(want, unmarshal(t, w, pod), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("pod %d (-want +got):\n%s", n, diff)
		}
	}
}

// wantedOf drops from a stripped pod what no decision has read.
func wantedOf(p *v1.Pod) *v1.Pod {
	p.OwnerReferences = slices.DeleteFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Controller == nil || !*o.Controller })
	for i := range p.OwnerReferences {
		p.OwnerReferences[i].BlockOwnerDeletion = nil
	}
	delete(p.Annotations, AnnotationCut)
	delete(p.Labels, AnnotationCut)
	few := func(lists ...v1.ResourceList) {
		for _, l := range lists {
			delete(l, "example.com/gpu")
		}
	}
	few(p.Spec.Overhead, p.Status.AllocatedResources)
	if p.Spec.Resources != nil {
		few(p.Spec.Resources.Limits, p.Spec.Resources.Requests)
		p.Spec.Resources.Claims = nil
	}
	for _, all := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range all {
			few(all[i].Resources.Limits, all[i].Resources.Requests)
			all[i].Resources.Claims = nil
			all[i].Ports = nil // no hook names one
			if l := all[i].Lifecycle; l != nil && *l.PreStop == (v1.LifecycleHandler{}) {
				all[i].Lifecycle = nil
			}
		}
	}
	for _, all := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range all {
			few(all[i].AllocatedResources)
		}
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i].VolumeSource
		if v.NFS != nil {
			v.NFS = &v1.NFSVolumeSource{}
		}
		if v.EmptyDir != nil {
			v.EmptyDir.Mode = nil
		}
	}
	return p
}

// stripped copies the fields of a decoded pod on which a decision or a kill can depend: what Unmarshal
// must leave of a pod within the bounds.
func stripped(pod *v1.Pod, wanted *pods.Wanted) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Generation: pod.Generation,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
			Labels: wanted.Kept(pod.Labels), Annotations: wanted.Kept(pod.Annotations), OwnerReferences: pod.OwnerReferences,
		},
		Spec: v1.PodSpec{
			Priority: pod.Spec.Priority, PriorityClassName: pod.Spec.PriorityClassName,
			RestartPolicy: pod.Spec.RestartPolicy, TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
			Overhead: pod.Spec.Overhead, Resources: pod.Spec.Resources, NodeName: pod.Spec.NodeName,
			InitContainers: containers(pod.Spec.InitContainers), Containers: containers(pod.Spec.Containers),
			Volumes: strippedVolumes(pod.Spec.Volumes),
		},
		Status: v1.PodStatus{
			Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message,
			StartTime: pod.Status.StartTime, QOSClass: pod.Status.QOSClass, PodIP: pod.Status.PodIP, Conditions: conditions(pod.Status.Conditions),
			InitContainerStatuses: statuses(pod.Status.InitContainerStatuses), ContainerStatuses: statuses(pod.Status.ContainerStatuses),
			AllocatedResources: pod.Status.AllocatedResources,
		},
	}
}

func containers(all []v1.Container) []v1.Container {
	out := make([]v1.Container, len(all))
	for i := range all {
		out[i] = v1.Container{Name: all[i].Name, Resources: all[i].Resources, RestartPolicy: all[i].RestartPolicy}
		if hooks := all[i].Lifecycle; hooks != nil && hooks.PreStop != nil {
			out[i].Lifecycle, out[i].Ports = &v1.Lifecycle{PreStop: hooks.PreStop}, all[i].Ports
		}
	}
	return out
}

// conditions keeps DisruptionTarget, which outlasts an eviction, and Ready, with which the kubelet
// reports that it has begun to terminate the pod.
func conditions(all []v1.PodCondition) (out []v1.PodCondition) {
	for _, c := range all {
		if c.Type == v1.DisruptionTarget || c.Type == v1.PodReady {
			out = append(out, c)
		}
	}
	return out
}

// strippedVolumes keeps what affects decisions, but not the projected keys and items.
func strippedVolumes(all []v1.Volume) []v1.Volume {
	out := make([]v1.Volume, len(all))
	for i := range all {
		out[i] = v1.Volume{Name: all[i].Name, VolumeSource: all[i].VolumeSource}
		s := &out[i].VolumeSource
		switch {
		case s.Projected != nil:
			s.Projected = &v1.ProjectedVolumeSource{}
		case s.ConfigMap != nil:
			s.ConfigMap = &v1.ConfigMapVolumeSource{}
		case s.Secret != nil:
			s.Secret = &v1.SecretVolumeSource{}
		case s.DownwardAPI != nil:
			s.DownwardAPI = &v1.DownwardAPIVolumeSource{}
		}
	}
	return out
}

func statuses(all []v1.ContainerStatus) []v1.ContainerStatus {
	out := make([]v1.ContainerStatus, len(all))
	for i := range all {
		out[i] = v1.ContainerStatus{Name: all[i].Name, State: v1.ContainerState{Running: all[i].State.Running}, AllocatedResources: all[i].AllocatedResources}
		if all[i].State.Waiting != nil {
			out[i].State.Waiting = &v1.ContainerStateWaiting{}
		}
	}
	return out
}

func TestUnusedFieldsAreNotKept(t *testing.T) {
	pod := edited(func(p *v1.Pod) {
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
		p.Annotations = map[string]string{v1.LastAppliedConfigAnnotation: strings.Repeat("x", 1<<16), "a": "b"}
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "PASSWORD", Value: "secret"}}
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}}}
	})
	wanted := &pods.Wanted{Ask: func() []string { return []string{"a"} }}
	if !wanted.Grown() || wanted.Grown() {
		t.Error("what is wanted grows with the first key, and not again")
	}
	got := unmarshal(t, wanted, pod)
	want := edited(func(p *v1.Pod) {
		p.Annotations = map[string]string{"a": "b"}
		p.Spec.InitContainers = []v1.Container{}
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}}}
		p.Status.ContainerStatuses, p.Status.InitContainerStatuses = []v1.ContainerStatus{}, []v1.ContainerStatus{}
	})
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if len(pod.Annotations) != 2 {
		t.Error("the pod that was told has been changed")
	}
}

func edited(change func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1", Namespace: "ns", Name: "a"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	change(p)
	return p
}

// 1.4 MB of each kind were held, and more for a moment, for each pod of which an owner makes as many as
// the quota allows.
func TestNoPodTakesMoreThanItsShare(t *testing.T) {
	for name, stuff := range stuffed.Shapes() {
		t.Run(name, func(t *testing.T) {
			pod := edited(stuff)
			got := unmarshal(t, nil, pod)
			if size := got.Size(); size > maxHeapBytes {
				t.Errorf("%d bytes of %d are kept, want 72 KiB at most", size, pod.Size())
			}
			said := got.Annotations[AnnotationCut] != ""
			decides := slices.Contains([]string{"containers", "initContainers", "volumes", "preStop", "many hooks"}, name)
			if said != decides {
				t.Errorf("%q is said", got.Annotations[AnnotationCut])
			}
			pod.Status.Phase = v1.PodFailed
			if ended := unmarshal(t, nil, pod); ended.Size() > 1<<10 || ended.Annotations[AnnotationCut] != "" {
				t.Errorf("%d bytes are kept of the ended pod: %v", ended.Size(), ended)
			}
		})
	}
}

// What 500 pods at the worst take, each with all that is kept.
func TestFiveHundredPodsAtTheWorstStayBelow40MB(t *testing.T) {
	mi := v1.ResourceList{"memory": resource.MustParse("1Mi"), "cpu": resource.MustParse("1"), "ephemeral-storage": resource.MustParse("1Mi")}
	shapes := map[string]func(*v1.Pod){
		"containers": func(p *v1.Pod) {
			for i := range 200 {
				p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint(i, strings.Repeat("c", 55)), Resources: v1.ResourceRequirements{Requests: mi, Limits: mi}})
			}
		},
		"plain containers": func(p *v1.Pod) {
			for i := range 200 {
				p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint(i, strings.Repeat("c", 55))})
			}
		},
		"volumes": func(p *v1.Pod) {
			for i := range 250 {
				p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint(i, strings.Repeat("v", 55)), VolumeSource: v1.VolumeSource{ScaleIO: &v1.ScaleIOVolumeSource{SecretRef: &v1.LocalObjectReference{}}}})
			}
		},
		"limited volumes": func(p *v1.Pod) {
			for i := range 250 {
				p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint(i, strings.Repeat("v", 55)), VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1Gi"))}}})
			}
		},
		"hook": func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: slices.Repeat([]string{"x"}, 2000)}}}
		},
		"statuses": func(p *v1.Pod) {
			for i := range 200 {
				s := v1.ContainerStatus{Name: fmt.Sprint(i, strings.Repeat("c", 55)), AllocatedResources: mi, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
			}
		},
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			raw, err := edited(shape).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			took := held(t, 500, raw)
			t.Logf("  %.1f MB", float64(took)/1e6)
			if took > 40e6 {
				t.Errorf("500 pods take %d bytes", took)
			}
		})
	}
}

// As many ended pods as a controller manager leaves by default.
func TestWhatTwelveThousandEndedPodsTake(t *testing.T) {
	for name, shape := range map[string]func(*v1.Pod){
		"plain": func(p *v1.Pod) {
			p.Labels = map[string]string{"app": "job"}
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "job", UID: "3b241101-e2bb-4255-8caf-4136c566a962", Controller: new(true)}}
		},
		"evicted": func(p *v1.Pod) {
			p.Annotations = map[string]string{"evictd.io/evicted": "2026-01-01T00:00:00.000000000Z", "evictd.io/record": "20260101T000000.000Z-00000000"}
			p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonTerminationByKubelet, Message: strings.Repeat("m", 16<<10)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := edited(shape)
			pod.Status.Phase = v1.PodFailed
			raw, err := pod.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			took := held(t, 12500, raw)
			t.Logf("  %.1f MB", float64(took)/1e6)
			if took > 40e6 {
				t.Errorf("12500 ended pods take %d bytes", took)
			}
		})
	}
}

// held returns the memory that so many pods take.
func held(t *testing.T, count int, raw []byte) int64 {
	t.Helper()
	all := make([]v1.Pod, count)
	var scratch []byte
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range all {
		var err error
		if scratch, err = Unmarshal(nil, &all[i], raw, scratch); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(all)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc) + int64(count)*int64(reflect.TypeFor[v1.Pod]().Size())
}
