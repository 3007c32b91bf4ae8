package paritytest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	resourcehelper "k8s.io/component-helpers/resource"
	v1resource "k8s.io/kubernetes/pkg/api/v1/resource"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/features"

	podkubernetes "github.com/evictd/evictd/host/internal/cluster/podsource/kubernetes"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// What a pod requests, with what its kubelet has allocated and reported (1.36), is what the kubelet ranks it by.
func TestRequestsOfPodsBesideAKubelet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	list, runtimes := &v1.PodList{}, fakecri.New()
	want := map[string]int64{}
	for i := range 2000 {
		allocated := randomPod(random, fmt.Sprint("uid-", i))
		want[string(allocated.UID)] = v1resource.GetResourceRequest(allocated, v1.ResourceMemory)
		reported := reportedBy(allocated)
		if random.IntN(4) == 0 { // it is being resized: the spec has what is not allocated yet
			resize(random, reported)
		}
		list.Items = append(list.Items, *reported)
		runtimes.Add(fakecri.Pod{UID: string(allocated.UID), Namespace: "ns", Name: allocated.Name, Containers: []fakecri.Container{{Name: "c0"}}})
	}
	source, err := podkubernetes.New(listed{list}, criclient.NewLister(runtimes.Client(), nil), pods.Rules{PodLevelResources: true}, unsaved{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go source.Run(ctx, slog.New(slog.DiscardHandler))
	for len(source.Pods()) < len(list.Items) && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	got, err := source.Active(ctx)
	if err != nil {
		t.Fatal(err)
	}
	podLevel := 0
	for _, p := range got.Pods {
		if p.API.Spec.Resources != nil {
			podLevel++
		}
		if p.Row.MemoryRequestBytes != want[p.Row.UID] {
			t.Errorf("pod %s: requests %d, the kubelet says %d", p.Row.UID, p.Row.MemoryRequestBytes, want[p.Row.UID])
		}
	}
	t.Logf("  %d pods, %d of them with resources at pod level", len(got.Pods), podLevel)
	if len(got.Pods) != len(list.Items) || podLevel < len(list.Items)/4 {
		t.Error("too few are compared")
	}
}

// requests are random ones of some of the resources.
func requests(random *rand.Rand, names ...v1.ResourceName) v1.ResourceList {
	out := v1.ResourceList{}
	for _, name := range names {
		if random.IntN(2) == 0 {
			out[name] = *quantity.NewQuantity(int64(random.IntN(100))<<20, quantity.BinarySI)
		}
	}
	return out
}

func randomPod(random *rand.Rand, uid string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "ns", Name: uid}}
	always := v1.ContainerRestartPolicyAlways
	for i := range 1 + random.IntN(3) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint("c", i), Resources: v1.ResourceRequirements{Requests: requests(random, v1.ResourceMemory, v1.ResourceCPU)}})
	}
	for i := range random.IntN(3) {
		c := v1.Container{Name: fmt.Sprint("i", i), Resources: v1.ResourceRequirements{Requests: requests(random, v1.ResourceMemory)}}
		if random.IntN(2) == 0 {
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if random.IntN(2) == 0 {
		p.Spec.Overhead = requests(random, v1.ResourceMemory, v1.ResourceCPU)
	}
	if random.IntN(2) == 0 {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: requests(random, v1.ResourceMemory, v1.ResourceCPU), Limits: requests(random, v1.ResourceCPU)}
	}
	return p
}

// reportedBy is a pod as the kubelet writes it to the API server
// (kubelet_pods.go generateAPIPodStatus and convertToAPIContainerStatuses).
func reportedBy(allocated *v1.Pod) *v1.Pod {
	p := allocated.DeepCopy()
	p.Status.Phase = v1.PodRunning
	p.Status.AllocatedResources = resourcehelper.PodRequests(allocated, resourcehelper.PodResourcesOptions{})
	of := func(containers []v1.Container) (out []v1.ContainerStatus) {
		for _, c := range containers {
			out = append(out, v1.ContainerStatus{Name: c.Name, AllocatedResources: c.Resources.Requests.DeepCopy()})
		}
		return out
	}
	p.Status.ContainerStatuses, p.Status.InitContainerStatuses = of(p.Spec.Containers), of(p.Spec.InitContainers)
	return p
}

// resize asks for other amounts of what is requested.
func resize(random *rand.Rand, p *v1.Pod) {
	all := []v1.ResourceList{}
	for i := range p.Spec.Containers {
		all = append(all, p.Spec.Containers[i].Resources.Requests)
	}
	if p.Spec.Resources != nil {
		all = append(all, p.Spec.Resources.Requests)
	}
	for _, requests := range all {
		for name := range requests {
			requests[name] = *quantity.NewQuantity(int64(random.IntN(100))<<20, quantity.BinarySI)
		}
	}
}

// listed is an API server that has these pods.
type listed struct{ list *v1.PodList }

func (l listed) ListPods(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return l.list, nil
}

func (l listed) WatchPods(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil {
		return nil, errors.New("lists only")
	}
	return watch.NewFake(), nil
}

type unsaved struct{}

func (unsaved) SavePods([]byte) error     { return nil }
func (unsaved) LoadPods() ([]byte, error) { return nil, nil }

// What a pod requests that no API server has seen is what the API server would have made of it.
func TestRequestsAreDefaultedAsByTheAPIServer(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.PodLevelResourcesFixDefaulting, false) // else they are not in one function
	random := rand.New(rand.NewPCG(1, 2))
	names := []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU, v1.ResourceEphemeralStorage, "hugepages-2Mi", "example.com/gpu"}
	for i := range 2000 {
		p := randomPod(random, fmt.Sprint("uid-", i))
		for _, containers := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
			for j := range containers {
				containers[j].Resources.Limits = requests(random, names...)
			}
		}
		if p.Spec.Resources != nil { // with requests of huge pages no limit of the containers becomes the pod's
			p.Spec.Resources.Limits = requests(random, v1.ResourceMemory, v1.ResourceCPU)
			p.Spec.Resources.Requests["hugepages-2Mi"] = quantity.MustParse("2Mi")
		}
		if random.IntN(2) == 0 {
			p.Spec.TerminationGracePeriodSeconds = new(int64(random.IntN(4) - 2))
		}
		want := p.DeepCopy()
		corev1.SetObjectDefaults_Pod(want)
		pods.SetDefaults(p)
		relevant := func(p *v1.Pod) (out []any) {
			for _, c := range append(p.Spec.Containers, p.Spec.InitContainers...) {
				out = append(out, c.Resources)
			}
			return append(out, p.Spec.Resources, p.Spec.TerminationGracePeriodSeconds)
		}
		if diff := cmp.Diff(relevant(want), relevant(p), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("pod %d (-API server +evictd):\n%s", i, diff)
		}
	}
}
