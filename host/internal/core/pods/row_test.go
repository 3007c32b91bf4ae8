package pods

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/shared/eviction"
)

const mi = 1 << 20

func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func requests(pairs ...string) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Requests: list(pairs...)}}
}

func sidecar(c v1.Container) v1.Container {
	always := v1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// kubelets are the rules of a kubelet whose gates have their defaults.
var kubelets = Rules{PodLevelResources: true}

func TestEffectiveRequests(t *testing.T) {
	for name, c := range map[string]struct {
		spec                v1.PodSpec
		memory, diskStorage int64
	}{
		"no containers, no requests": {},
		"containers are summed": {
			spec:   v1.PodSpec{Containers: []v1.Container{requests("memory", "10Mi", "ephemeral-storage", "1Mi"), requests("memory", "5Mi")}},
			memory: 15 * mi, diskStorage: mi,
		},
		"a large init container is the minimum": {
			spec:   v1.PodSpec{Containers: []v1.Container{requests("memory", "10Mi")}, InitContainers: []v1.Container{requests("memory", "64Mi")}},
			memory: 64 * mi,
		},
		"a sidecar is added to the containers": {
			spec:   v1.PodSpec{Containers: []v1.Container{requests("memory", "10Mi")}, InitContainers: []v1.Container{sidecar(requests("memory", "4Mi"))}},
			memory: 14 * mi,
		},
		"a sidecar is added to the init containers after it": {
			spec: v1.PodSpec{
				Containers:     []v1.Container{requests("memory", "10Mi")},
				InitContainers: []v1.Container{sidecar(requests("memory", "4Mi")), requests("memory", "20Mi")},
			},
			memory: 24 * mi,
		},
		"a sidecar is not added to the init containers before it": {
			spec: v1.PodSpec{
				Containers:     []v1.Container{requests("memory", "10Mi")},
				InitContainers: []v1.Container{requests("memory", "20Mi"), sidecar(requests("memory", "4Mi"))},
			},
			memory: 20 * mi,
		},
		"overhead is added": {
			spec:   v1.PodSpec{Containers: []v1.Container{requests("memory", "10Mi")}, Overhead: list("memory", "2Mi")},
			memory: 12 * mi,
		},
		"overhead alone is no request": {spec: v1.PodSpec{Containers: []v1.Container{{}}, Overhead: list("memory", "2Mi")}},
		"the pod level counts alone, and it has no ephemeral storage": {
			spec: v1.PodSpec{
				Containers: []v1.Container{requests("memory", "10Mi", "ephemeral-storage", "1Mi")},
				Resources:  &v1.ResourceRequirements{Requests: list("memory", "100Mi")},
				Overhead:   list("memory", "1Mi", "ephemeral-storage", "1Mi"),
			},
			memory: 101 * mi,
		},
		"cpu at pod level makes the memory request zero": {
			spec: v1.PodSpec{
				Containers: []v1.Container{requests("memory", "10Mi")},
				Resources:  &v1.ResourceRequirements{Requests: list("cpu", "1")},
			},
		},
		"limits at pod level do as well": {
			spec: v1.PodSpec{
				Containers: []v1.Container{requests("memory", "10Mi")},
				Resources:  &v1.ResourceRequirements{Limits: list("memory", "1Gi")},
			},
		},
		"empty pod level resources are none": {
			spec:   v1.PodSpec{Containers: []v1.Container{requests("memory", "10Mi")}, Resources: &v1.ResourceRequirements{}},
			memory: 10 * mi,
		},
		"fractions are rounded up": {spec: v1.PodSpec{Containers: []v1.Container{requests("memory", "1500m")}}, memory: 2},
	} {
		t.Run(name, func(t *testing.T) {
			row := kubelets.Row(&v1.Pod{Spec: c.spec}, nil)
			if row.MemoryRequestBytes != c.memory || row.EphemeralStorageRequestBytes != c.diskStorage {
				t.Errorf("memory %d, ephemeral storage %d, want %d and %d", row.MemoryRequestBytes, row.EphemeralStorageRequestBytes, c.memory, c.diskStorage)
			}
		})
	}
}

func TestQoSClass(t *testing.T) {
	with := func(requests, limits v1.ResourceList) v1.Container {
		return v1.Container{Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
	}
	full := list("cpu", "1", "memory", "1Gi")
	for name, c := range map[string]struct {
		pod  v1.Pod
		want eviction.QoSClass
	}{
		"no containers":                            {want: eviction.BestEffort},
		"nothing set":                              {pod: v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{}}}}, want: eviction.BestEffort},
		"zeros are nothing":                        {pod: v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{with(list("cpu", "0", "memory", "0"), nil)}}}, want: eviction.BestEffort},
		"storage does not count":                   {pod: v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{requests("ephemeral-storage", "1Gi")}}}, want: eviction.BestEffort},
		"both set and equal":                       {pod: v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{with(full, full)}}}, want: eviction.Guaranteed},
		"equal in another format":                  {pod: v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{with(full, list("cpu", "1000m", "memory", "1024Mi"))}}}, want: eviction.Guaranteed},
		"memory alone, set and equal":              {pod: v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{with(list("memory", "1Gi"), list("memory", "1Gi"))}}}, want: eviction.Burstable},
		"limit above request":                      {pod: v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{with(list("cpu", "1", "memory", "1Mi"), full)}}}, want: eviction.Burstable},
		"one container guaranteed, one not":        {pod: v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{with(full, full), {}}}}, want: eviction.Burstable},
		"an init container counts":                 {pod: v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{with(full, full)}, InitContainers: []v1.Container{{}}}}, want: eviction.Burstable},
		"the pod level decides alone":              {pod: v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: full, Limits: full}, Containers: []v1.Container{{}}}}, want: eviction.Guaranteed},
		"also when it is there and empty":          {pod: v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{}, Containers: []v1.Container{with(full, full)}}}, want: eviction.BestEffort},
		"containers count together":                {pod: v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{with(list("cpu", "1", "memory", "1Gi"), list("cpu", "2", "memory", "1Gi")), with(list("cpu", "2", "memory", "1Gi"), list("cpu", "1", "memory", "1Gi"))}}}, want: eviction.Guaranteed},
		"a limit alone":                            {pod: v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{with(nil, list("memory", "1Gi"))}}}, want: eviction.Burstable},
		"what the status says beats what it seems": {pod: v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSGuaranteed}}, want: eviction.Guaranteed},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kubelets.Row(&c.pod, nil).QoSClass; got != c.want {
				t.Errorf("class %s, want %s", got, c.want)
			}
		})
	}
}

func TestRow(t *testing.T) {
	priority, isController := int32(-7), true
	started := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: "u", Namespace: "shop", Name: "cart",
			Labels: map[string]string{"app": "cart", "tier": "web"}, Annotations: map[string]string{"note": "x", "other": "y"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Node"}, {Kind: "ReplicaSet", Controller: &isController}},
		},
		Spec: v1.PodSpec{
			Priority: &priority,
			Volumes: []v1.Volume{
				{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "ram", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
				{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}},
				{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}},
				{Name: "git", VolumeSource: v1.VolumeSource{GitRepo: &v1.GitRepoVolumeSource{}}},
				{Name: "claim", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}},
				{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}},
			},
		},
		Status: v1.PodStatus{StartTime: &started},
	}
	containers := []eviction.Container{{Name: "c", ID: "1"}}
	want := eviction.Pod{
		UID: "u", Namespace: "shop", Name: "cart", Priority: -7, QoSClass: eviction.BestEffort, StartTime: started.Time, OwnerKind: "ReplicaSet",
		Labels: pod.Labels, Annotations: pod.Annotations, Containers: containers,
		Volumes: []eviction.Volume{
			{Name: "scratch", Kind: "emptyDir", CountsForRanking: true},
			{Name: "ram", Kind: "emptyDir", Medium: "Memory"},
			{Name: "host", Kind: "hostPath", CountsForRanking: true},
			{Name: "conf", Kind: "configMap", CountsForRanking: true},
			{Name: "git", Kind: "gitRepo", CountsForRanking: true},
			{Name: "claim", Kind: "persistentVolumeClaim"},
			{Name: "token", Kind: "projected"},
		},
	}
	row := kubelets.Row(pod, containers)
	if diff := cmp.Diff(want, row); diff != "" {
		t.Error(diff)
	}
}

func TestEveryVolumeSourceHasItsKind(t *testing.T) {
	sources := reflect.TypeFor[v1.VolumeSource]()
	for i := range sources.NumField() {
		var s v1.VolumeSource
		field := sources.Field(i)
		reflect.ValueOf(&s).Elem().Field(i).Set(reflect.New(field.Type.Elem()))
		want, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if got := volumeKind(&s); got != want {
			t.Errorf("kind of %s is %q, want %q", field.Name, got, want)
		}
	}
}
