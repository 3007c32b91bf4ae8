package faults

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

// ender is a pod that ends before the input fails, and that old lists still have.
const ender = "ender"

// late is a pod that comes just before the input fails, so that its container is asked for.
const late = "late"

// An inputWorld is a world in which one input fails.
type inputWorld struct {
	*world
	cell inputCell
	// containers has the container of each pod.
	containers map[string]string
	// ended has the items that old lists have of a pod that has ended, by type.
	ended map[protoreflect.FullName]proto.Message
	// failing: an input that the world serves fails.
	failing atomic.Bool
	api     *api
}

func (c *inputCell) world(t *testing.T) *inputWorld {
	w := &inputWorld{world: emptyWorld(t), cell: *c, ended: map[protoreflect.FullName]proto.Message{}}
	w.runtime.AddImage(&runtimeapi.Image{Id: "sha256:used", RepoTags: []string{"none"}, Size: 1})
	w.runtime.AddImage(&runtimeapi.Image{Id: "sha256:pause", RepoTags: []string{"pause"}, Size: 1})
	w.runtime.SetSandboxImage("pause")
	w.runtime.SetCgroupDriver(runtimeapi.CgroupDriver_CGROUPFS)
	plugin := map[string]string{"memory.available": "memory", "pid.available": "pid"}[c.signal]
	plugin = cmp.Or(plugin, "disk")
	daemon.Install(t, daemon.Build(t, plugin), filepath.Join(w.plugins, plugin))
	w.config["evictionHard"] = map[string]map[string]string{
		"memory": {"memory.available": "1Gi"}, "pid": {"pid.available": "100"}, "disk": {"nodefs.available": "16Mi"},
	}[plugin]
	switch c.signal {
	case localLimits:
		w.config["evictionHard"] = map[string]string{"nodefs.available": "1Mi"}
		if c.input.name != "container stats" {
			w.volume = "{sizeLimit: 10Mi}"
		}
		fallthrough
	case "nodefs.available", "pid.available":
		w.config["monitoringInterval"] = quick.String()
	}
	for _, pod := range []string{greedy, lowly, shield, stranger, ender} {
		if (c.fault == old && pod != c.victim) || (c.fault != old && pod != ender) {
			w.add(pod)
		}
	}
	if c.input.serve != nil {
		c.input.serve(w)
	}
	return w
}

// qosOf returns the class of a pod's cgroup.
func qosOf(pod string) string {
	if pod == shield || pod == stranger {
		return "besteffort"
	}
	return "burstable"
}

func (w *inputWorld) add(pod string) {
	w.t.Helper()
	switch pod {
	case greedy:
		limits := "{}"
		if w.cell.signal == localLimits && w.cell.input.name == "container stats" {
			limits = "{ephemeral-storage: 10Mi}"
		}
		w.pod(greedy, qosOf(pod), 2*gib, 1000, "requests: {memory: 512Mi, ephemeral-storage: 1Mi}, limits: "+limits)
	case lowly:
		w.pod(lowly, qosOf(pod), gib, 0, "requests: {memory: 2Gi, ephemeral-storage: 100Mi}")
	case shield:
		w.pod(shield, qosOf(pod), 4*gib, 2000001000, "")
	case stranger:
		w.pod(stranger, qosOf(pod), 3*gib, -1, "")
	case ender:
		w.pod(ender, qosOf(pod), 3*gib, 0, "requests: {memory: 512Mi}")
	}
}

// note keeps the containers of pods and what lists say of the one that ends.
func (w *inputWorld) note() {
	w.t.Helper()
	ctx, runtime := w.t.Context(), w.runtime.Client()
	w.containers = map[string]string{}
	boxes, err := runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	containers, err := runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	stats, err := runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range containers.GetContainers() {
		w.containers[podOf(c)] = c.GetId()
	}
	for _, reply := range []proto.Message{boxes, containers, stats} {
		fakecri.EachList(func(items []proto.Message) []proto.Message {
			for _, item := range items {
				if podOf(item) == ender {
					w.ended[item.ProtoReflect().Descriptor().FullName()] = item
				}
			}
			return items
		})(reply)
	}
}

// turn replaces the pod that ends with the victim.
func (w *inputWorld) turn() {
	w.t.Helper()
	if slices.Contains(w.cell.input.methods, fakecri.ContainerStatus) {
		w.pod(late, "besteffort", mib, -1, "")
	}
	w.note()
	if w.cell.fault != old {
		return
	}
	w.runtime.Remove("uid-" + ender)
	for _, name := range []string{
		filepath.Join(w.manifests, ender+".yaml"), w.path("sys/fs/cgroup/memory/kubepods/burstable/poduid-" + ender), w.path("sys/fs/cgroup/pids/kubepods/burstable/poduid-" + ender),
	} {
		if err := os.RemoveAll(name); err != nil {
			w.t.Fatal(err)
		}
	}
	w.add(w.cell.victim)
}

// calls returns the calls that the fault affects, so far.
func (w *inputWorld) calls() []fakecri.Call {
	if slices.Contains(w.cell.input.methods, fakecri.Any) {
		return w.runtime.Calls()
	}
	return w.runtime.Calls(w.cell.input.methods...)
}

// calm waits until evictd has concluded something and has read the lists.
func (w *inputWorld) calm(d *daemon.Daemon) {
	w.t.Helper()
	cell{}.awaitPass(w.t, d)
	ctx, cancel := context.WithTimeout(w.t.Context(), slack)
	defer cancel()
	for _, m := range []fakecri.Method{fakecri.ListPodSandbox, fakecri.ListContainers} {
		if err := w.runtime.Await(ctx, m, 1); err != nil {
			w.t.Fatalf("evictd does not call %s: %v", m, err)
		}
	}
	if w.cell.signal == localLimits { // the first check of limits, which runs beside the first pass, must not see the pressure
		cell{}.awaitPasses(w.t, d, 2)
	}
	if w.cell.input.serve != nil && w.config["source"] == "summary" {
		return
	}
	daemon.Eventually(w.t, slack, func() error { // it has compared the lists with the cgroups
		if _, status := d.Get("/status"); strings.Contains(status, `"running": 0`) {
			return errors.New("no pod runs")
		}
		return nil
	})
}

// ends reports whether a container of a possible victim is stopped. A runtime that does not answer
// stops none.
func (w *inputWorld) ends() bool {
	if w.cell.input.name == "runtime" && slices.Contains([]string{slow6, slow20, hangs, errs, fromStart}, w.cell.fault) {
		return true
	}
	for deadline := time.Now().Add(8 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for _, victim := range w.cell.victims {
			if !w.runtime.Running("uid-" + victim) {
				return true
			}
		}
	}
	return false
}
