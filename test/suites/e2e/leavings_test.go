package e2e_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/harness/stack"
)

// Leavings are objects for reclaim to remove, and others that look like them and are to stay,
// all on one filesystem.
type leavings struct {
	// unused images and dead containers are to go.
	unused []string
	dead   []string
	// used images, and the last dead container of a pod that lives on, are to stay.
	used []string
	last string
	// job is a pod that has ended. When it is deleted, all of it may go.
	job *stack.Pod
	// worker has died and been restarted, calm has not.
	worker, calm *stack.Pod
	// freeable is about what goes with all that is to go.
	freeable int64
}

const (
	layerUnits = 20 // of each dead container
	imageUnits = 30 // of each unused image
	deaths     = 3  // of the worker's container
)

// leave makes them.
func leave(t *testing.T, n *stack.Stack, of resourceKind) leavings {
	t.Helper()
	l := leavings{used: []string{stack.PodImage}}
	image := func(name string) string {
		full := fmt.Sprintf("localhost/e2e/%s-%s:1", name, of.name)
		filled := stack.BusyboxImage(full, nil)
		filled.FillerFiles, filled.FillerBytes = 1, imageUnits*of.unit
		if of.name == inodesOf.name {
			filled.FillerFiles, filled.FillerBytes = int(imageUnits*of.unit), 0
		}
		must(t, n.Import(t.Context(), filled))
		return full
	}
	for i := range 3 {
		l.unused = append(l.unused, image(fmt.Sprintf("unused-%d", i+1)))
	}
	used := image("used")
	l.used = append(l.used, used)
	l.calm = run(t, n, sketch{name: "calm-" + of.name, image: used})

	// It counts its lives in a volume, dies of the first ones and then idles.
	l.worker = run(t, n, sketch{name: "worker-" + of.name, emptyDirs: map[string]string{"state": ""}, containers: map[string]string{"main": fmt.Sprintf(
		`echo life >>/state/lives; if [ $(grep -c life /state/lives) -gt %d ]; then %s; fi; %s exit 1`, deaths, idle, of.take("", layerUnits*of.unit))}})
	for i := range deaths {
		id := l.worker.ContainerIDs["main"]
		waitExited(t, n.Runtime, id)
		l.dead = append(l.dead, id)
		must(t, l.worker.Restart(t.Context(), "main", uint32(i+1)))
	}
	l.last, l.dead = l.dead[deaths-1], l.dead[:deaths-1]

	l.job = run(t, n, sketch{name: "job-" + of.name, containers: map[string]string{"main": "echo done; " + of.take("", layerUnits*of.unit)}})
	waitExited(t, n.Runtime, l.job.ContainerIDs["main"])
	l.dead = append(l.dead, l.job.ContainerIDs["main"])
	_, err := n.Runtime.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: l.job.SandboxID})
	must(t, err)
	l.freeable = of.unit * int64(layerUnits*len(l.dead)+imageUnits*len(l.unused))
	return l
}

func waitExited(t *testing.T, runtime runtimeapi.RuntimeServiceClient, id string) {
	t.Helper()
	eventually(t, "container "+id+" has exited", func() (bool, error) {
		s, err := runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
		return s.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_EXITED, err
	})
}

// checkGone looks at the runtime and at the disk, not at what evictd says.
func (l *leavings) checkGone(t *testing.T, n *stack.Stack) {
	t.Helper()
	containers, sandboxes, images := contents(t, n)
	for _, id := range l.dead {
		if slices.Contains(containers, id) {
			t.Errorf("the dead container %s is still there", id)
		}
	}
	if !slices.Contains(containers, l.last) {
		t.Errorf("the last dead container of %s is gone: nobody can tell any more how it ended", l.worker.Key())
	}
	if slices.Contains(sandboxes, l.job.SandboxID) {
		t.Errorf("the dead sandbox of %s is still there", l.job.Key())
	}
	if _, err := os.Stat(l.job.LogDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the orphaned log directory of %s: %v, want it gone", l.job.Key(), err)
	}
	for _, name := range l.unused {
		if slices.Contains(images, name) {
			t.Errorf("the unused image %s is still there", name)
		}
	}
	for _, name := range append(l.used, stack.SandboxImage) {
		if !slices.Contains(images, name) {
			t.Errorf("the image %s is gone, and was in use", name)
		}
	}
	l.checkAlive(t)
}

// checkAlive looks at the pods that reclaim has no business with.
func (l *leavings) checkAlive(t *testing.T) {
	t.Helper()
	wantRunning(t, l.worker, l.calm)
}

// contents are all containers, sandboxes and images that the runtime has.
func contents(t *testing.T, n *stack.Stack) (containers, sandboxes, images []string) {
	t.Helper()
	c, err := n.Runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	must(t, err)
	for _, c := range c.GetContainers() {
		containers = append(containers, c.GetId())
	}
	s, err := n.Runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	must(t, err)
	for _, s := range s.GetItems() {
		sandboxes = append(sandboxes, s.GetId())
	}
	i, err := n.Images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
	must(t, err)
	for _, i := range i.GetImages() {
		images = append(images, i.GetRepoTags()...)
	}
	return containers, sandboxes, images
}
