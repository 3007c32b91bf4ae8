package crossings_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/harness/stack"
)

const (
	// annotations of a sandbox, with names of four bytes and no values, are 254 KiB in a list. With
	// many short ones containerd takes longer than with few long ones of that size. The API server
	// accepts 65000 of these, with which a list of 108 pods occupies containerd for 14 s and more.
	annotations = 26000
	// startedAtOnce pods are started at the same time.
	startedAtOnce = 8
	// sendLimit is the size of the largest list that containerd sends.
	sendLimit = 16 * mib
)

// A list of sandboxes with large annotations took seconds, and from 16 MiB on containerd did not send
// it. The hog is chosen within a second, also by an evictd that never got a list.
func TestLargeAnnotationsAreChosenWithinASecond(t *testing.T) {
	rounds(t, 2)
	// containerd's own memory varies by hundreds of MiB.
	of := scope{signal: ofNode.signal, distanceMiB: 1500, beyondMiB: 1000, shared: true, programs: os.Getenv("EVICTD_CONTAINERD")}
	f := newField(t, of, nil)
	c := crowd{field: f, annotations: map[string]string{}}
	for i := range annotations {
		c.annotations[fmt.Sprintf("a%03s", strconv.FormatInt(int64(i), 36))] = ""
	}
	for _, n := range crowds(t) {
		f.reload(t, unmetBytes)
		c.grow(t, n)
		c.play(t, fmt.Sprintf("hog-of-%d", n))
	}
	if bytes := c.listBytes(t); bytes < sendLimit {
		t.Errorf("the list of sandboxes has %d bytes, want more than containerd sends", bytes)
	}
	must(t, f.agent.Stop())
	f.victims = 0
	f.startEvictd(t, nil)
	c.play(t, "hog-of-a-new-evictd")
	f.bystanderLives(t)
}

// crowds returns the numbers of pods to play with, each larger than the one before.
func crowds(t *testing.T) (sizes []int) {
	t.Helper()
	text := os.Getenv("EVICTD_CROWDS")
	if text == "" {
		text = "30,108"
	}
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		must(t, err)
		sizes = append(sizes, n)
	}
	return sizes
}

// A crowd is pods with large annotations beside the hogs of a field.
type crowd struct {
	field       *field
	annotations map[string]string
	size        int
}

// grow starts pods until there are so many.
func (c *crowd) grow(t *testing.T, to int) {
	t.Helper()
	began := time.Now()
	var starting sync.WaitGroup
	free := make(chan struct{}, startedAtOnce)
	for ; c.size < to; c.size++ {
		free <- struct{}{}
		i := c.size
		starting.Go(func() {
			defer func() { <-free }()
			if err := c.run(t, i); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	started := time.Since(began).Seconds()
	began = time.Now()
	_, err := c.field.stack.Runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	t.Logf("%d pods after %.1f s; their list of sandboxes has %.1f MiB and takes containerd %.1f s: %v", to, started, float64(c.listBytes(t))/mib, time.Since(began).Seconds(), err)
}

// run starts a pod. Its manifest for evictd does not have the annotations of its sandbox: reading
// them is not measured here.
func (c *crowd) run(t *testing.T, i int) error {
	manifest := v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "crossings", Name: fmt.Sprintf("large-%d", i), UID: types.UID(uidOf(i)), Annotations: c.annotations},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: stack.PodImage, Command: []string{"/bin/sleep", "86400"}}}},
	}
	if _, err := c.field.stack.RunPod(t.Context(), manifest.DeepCopy()); err != nil {
		return err
	}
	manifest.Annotations = nil
	_, err := c.field.stack.PutManifest(&manifest)
	return err
}

func uidOf(i int) string { return fmt.Sprintf("6d9e1c6e-0001-4000-8000-%012d", i) }

// listBytes returns the size of a list of the pods' sandboxes.
func (c *crowd) listBytes(t *testing.T) int {
	t.Helper()
	reply, err := c.field.stack.Runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": uidOf(0)}},
	})
	must(t, err)
	return proto.Size(reply) * c.size
}

// play has three hogs cross. Each has its own threshold: containerd keeps memory of the lists.
func (c *crowd) play(t *testing.T, name string) {
	t.Helper()
	for i := range 3 {
		c.field.setThreshold(t)
		r, err := c.field.round(t, fmt.Sprintf("%s-%d", name, i+1), 1000, nothing)
		if err != nil {
			t.Fatalf("%s-%d, beside %d pods: %v", name, i+1, c.size, err)
		}
		if r.latency >= ms(int64(time.Second)) {
			t.Errorf("%s-%d got SIGTERM %.1f ms after the crossing, want less than a second", name, i+1, r.latency)
		}
		evicted := c.field.agent.Records("evicting pod")
		t.Logf("%s-%d beside %d pods: crossed -> SIGTERM %.1f ms  gone after %.0f ms  not new: %s", name, i+1, c.size, r.latency, r.gone, evicted[len(evicted)-1].String("notNew"))
	}
}
