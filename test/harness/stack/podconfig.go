package stack

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The labels by which the kubelet identifies its containers.
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

// qosClass implements the kubelet's rule for CPU and memory: Guaranteed if all limits are set and
// equal the requests, BestEffort if nothing is set.
func qosClass(pod *v1.Pod) v1.PodQOSClass {
	anything, guaranteed := false, true
	for _, c := range append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...) {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			request, hasRequest := c.Resources.Requests[name]
			limit, hasLimit := c.Resources.Limits[name]
			anything = anything || hasRequest || hasLimit
			// A missing request defaults to the limit.
			guaranteed = guaranteed && hasLimit && (!hasRequest || request.Cmp(limit) == 0)
		}
	}
	switch {
	case !anything:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	default:
		return v1.PodQOSBurstable
	}
}

// podCgroup returns the pod's cgroup as the kubelet's driver names it: a path with cgroupfs; with
// systemd a slice, whose name implies its parents.
func podCgroup(root string, systemd bool, pod *v1.Pod) string {
	tier := map[v1.PodQOSClass]string{v1.PodQOSBestEffort: "besteffort", v1.PodQOSBurstable: "burstable"}[qosClass(pod)]
	if !systemd {
		return path.Join(root, "kubepods", tier, "pod"+string(pod.UID))
	}
	if tier != "" {
		tier += "-"
	}
	return "kubepods-" + tier + "pod" + strings.ReplaceAll(string(pod.UID), "-", "_") + ".slice"
}

func (p *Pod) sandboxConfig() *runtimeapi.PodSandboxConfig {
	labels := map[string]string{labelPodName: p.Name, labelPodNamespace: p.Namespace, labelPodUID: string(p.UID)}
	maps.Copy(labels, p.Labels)
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: string(p.UID)},
		LogDirectory: p.LogDir(),
		Labels:       labels,
		Annotations:  p.Annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    p.CgroupParent,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: namespaces()},
		},
	}
}

func namespaces() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER, Ipc: runtimeapi.NamespaceMode_POD}
}

func (p *Pod) containerConfig(c *v1.Container, attempt uint32) (*runtimeapi.ContainerConfig, error) {
	mounts, err := p.mounts(c)
	if err != nil {
		return nil, err
	}
	var env []*runtimeapi.KeyValue
	for _, e := range c.Env {
		env = append(env, &runtimeapi.KeyValue{Key: e.Name, Value: []byte(e.Value)})
	}
	grace := int64(30)
	if p.Spec.TerminationGracePeriodSeconds != nil {
		grace = *p.Spec.TerminationGracePeriodSeconds
	}
	qos := qosClass(p.Pod)
	return &runtimeapi.ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: attempt},
		Image:      &runtimeapi.ImageSpec{Image: c.Image},
		Command:    c.Command,
		Args:       c.Args,
		Envs:       env,
		WorkingDir: c.WorkingDir,
		Mounts:     mounts,
		LogPath:    filepath.Join(c.Name, fmt.Sprintf("%d.log", attempt)),
		Labels:     map[string]string{labelPodName: p.Name, labelPodNamespace: p.Namespace, labelPodUID: string(p.UID), labelContainerName: c.Name},
		Annotations: map[string]string{
			"io.kubernetes.container.restartCount":     strconv.FormatUint(uint64(attempt), 10),
			"io.kubernetes.pod.terminationGracePeriod": strconv.FormatInt(grace, 10),
		},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       resources(qos, c),
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: namespaces()},
		},
	}, nil
}

// resources sets, like the kubelet, what matters to eviction: the memory limit and the OOM score
// of the QoS class.
func resources(qos v1.PodQOSClass, c *v1.Container) *runtimeapi.LinuxContainerResources {
	score := map[v1.PodQOSClass]int64{v1.PodQOSGuaranteed: 0, v1.PodQOSBurstable: 999, v1.PodQOSBestEffort: 1000}[qos]
	return &runtimeapi.LinuxContainerResources{
		CpuShares:          max(2, c.Resources.Requests.Cpu().MilliValue()*1024/1000),
		MemoryLimitInBytes: c.Resources.Limits.Memory().Value(),
		OomScoreAdj:        score,
	}
}

func (p *Pod) mounts(c *v1.Container) ([]*runtimeapi.Mount, error) {
	sources := map[string]string{}
	for _, v := range p.Spec.Volumes {
		switch {
		case v.HostPath != nil:
			sources[v.Name] = v.HostPath.Path
		case v.EmptyDir != nil:
			dir := p.EmptyDir(v.Name)
			if err := os.MkdirAll(dir, 0o777); err != nil {
				return nil, err
			}
			sources[v.Name] = dir
		default:
			return nil, fmt.Errorf("volume %q: want hostPath or emptyDir", v.Name)
		}
	}
	var out []*runtimeapi.Mount
	for _, m := range c.VolumeMounts {
		source, ok := sources[m.Name]
		if !ok {
			return nil, fmt.Errorf("container %q mounts the volume %q, which the pod does not have", c.Name, m.Name)
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: m.MountPath, HostPath: source, Readonly: m.ReadOnly})
	}
	return out, nil
}
