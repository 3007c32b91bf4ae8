package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"
)

// A Pod is a pod that was started.
type Pod struct {
	*v1.Pod
	SandboxID string
	// ContainerIDs has the latest container of each name.
	ContainerIDs map[string]string
	// CgroupParent is the pod's cgroup, as a path inside each hierarchy.
	CgroupParent string
	// Manifest is the pod's file in the manifest directory.
	Manifest string

	stack   *Stack
	sandbox *runtimeapi.PodSandboxConfig
}

// Key returns namespace/name, as in logs.
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }

// ReadManifest reads a v1.Pod from YAML, strictly.
func ReadManifest(raw []byte) (*v1.Pod, error) {
	pod := &v1.Pod{}
	if err := yaml.UnmarshalStrict(raw, pod); err != nil {
		return nil, fmt.Errorf("read pod manifest: %w", err)
	}
	if pod.Name == "" || pod.Namespace == "" || pod.UID == "" || len(pod.Spec.Containers) == 0 {
		return nil, errors.New("read pod manifest: name, namespace, uid and at least one container must be set")
	}
	return pod, nil
}

// RunPod puts the pod's manifest into the manifest directory and starts its containers like the
// kubelet, with the same cgroup, labels, annotations and resources. Containers share the host's
// network and have their own process namespaces. Of the init containers it starts only
// sidecars. Volumes may be hostPath and emptyDir.
func (s *Stack) RunPod(ctx context.Context, manifest *v1.Pod) (*Pod, error) {
	p, err := s.PutManifest(manifest)
	if err != nil {
		return nil, err
	}
	if !s.systemd { // systemd makes them itself
		if err := makeCgroup(s.hierarchies, p.CgroupParent); err != nil {
			return nil, err
		}
	}
	p.sandbox = p.sandboxConfig()
	run, err := s.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: p.sandbox})
	if err != nil {
		return nil, fmt.Errorf("run pod %s: %w: %s", p.Key(), err, tail(filepath.Join(s.Dir, "containerd.log")))
	}
	p.SandboxID = run.PodSandboxId
	for _, c := range append(sidecars(manifest), manifest.Spec.Containers...) {
		if err := p.runContainer(ctx, &c, 0); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// sidecars returns the init containers that keep running.
func sidecars(pod *v1.Pod) []v1.Container {
	return slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), func(c v1.Container) bool {
		return c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways
	})
}

// Restart starts a container of the pod again, like the kubelet after it has ended: the old one
// remains as a dead container.
func (p *Pod) Restart(ctx context.Context, name string, attempt uint32) error {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			return p.runContainer(ctx, &p.Spec.Containers[i], attempt)
		}
	}
	return fmt.Errorf("restart container %s: pod %s does not have it", name, p.Key())
}

func (p *Pod) runContainer(ctx context.Context, c *v1.Container, attempt uint32) error {
	config, err := p.containerConfig(c, attempt)
	if err != nil {
		return fmt.Errorf("run pod %s: %w", p.Key(), err)
	}
	made, err := p.stack.Runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: p.SandboxID, SandboxConfig: p.sandbox, Config: config})
	if err != nil {
		return fmt.Errorf("create container %s of pod %s: %w", c.Name, p.Key(), err)
	}
	p.ContainerIDs[c.Name] = made.ContainerId
	if _, err := p.stack.Runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		return fmt.Errorf("start container %s of pod %s: %w", c.Name, p.Key(), err)
	}
	return nil
}

// Exec runs a shell script in a container of the pod and waits for it to end.
func (p *Pod) Exec(ctx context.Context, name, script string) error {
	done, err := p.stack.Runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: p.ContainerIDs[name], Cmd: []string{"/bin/sh", "-ec", script}})
	if err == nil && done.GetExitCode() != 0 {
		err = fmt.Errorf("exit status %d: %s", done.GetExitCode(), bytes.TrimSpace(done.GetStderr()))
	}
	if err != nil {
		return fmt.Errorf("run a script in container %s of pod %s: %w", name, p.Key(), err)
	}
	return nil
}

// LimitProcesses sets the maximum number of processes of the pod, like the kubelet's podPidsLimit.
func (p *Pod) LimitProcesses(most int) error {
	for _, h := range p.stack.hierarchies {
		if h.v2 && len(p.stack.hierarchies) == 1 || h.has("pids") {
			return os.WriteFile(filepath.Join(h.mount, p.CgroupParent, "pids.max"), []byte(strconv.Itoa(most)), 0o644)
		}
	}
	return errors.New("no cgroup hierarchy has the pids controller")
}

// EmptyDir returns the node's directory of a volume of the pod.
func (p *Pod) EmptyDir(volume string) string {
	return filepath.Join(p.stack.podsDir(), string(p.UID), "volumes/kubernetes.io~empty-dir", volume)
}

// LogDir returns the directory of the pod's logs.
func (p *Pod) LogDir() string {
	return filepath.Join(p.stack.PodLogsDir, fmt.Sprintf("%s_%s_%s", p.Namespace, p.Name, p.UID))
}

// PutManifest puts the pod's manifest into the manifest directory. It starts nothing.
func (s *Stack) PutManifest(manifest *v1.Pod) (*Pod, error) {
	p := &Pod{
		Pod: manifest, stack: s, ContainerIDs: map[string]string{},
		CgroupParent: podCgroup(s.CgroupRoot, s.systemd, manifest),
		Manifest:     filepath.Join(s.ManifestDir, manifest.Namespace+"_"+manifest.Name+".yaml"),
	}
	return p, p.writeManifest()
}

// writeManifest writes a temporary file and renames it, so that a reader that watches the
// directory never sees half a manifest.
func (p *Pod) writeManifest() error {
	raw, err := yaml.Marshal(p.Pod)
	if err != nil {
		return fmt.Errorf("encode manifest of pod %s: %w", p.Key(), err)
	}
	next := filepath.Join(p.stack.Dir, filepath.Base(p.Manifest)+".tmp")
	if err := os.WriteFile(next, raw, 0o644); err != nil {
		return fmt.Errorf("write manifest of pod %s: %w", p.Key(), err)
	}
	if err := os.Rename(next, p.Manifest); err != nil {
		return fmt.Errorf("write manifest of pod %s: %w", p.Key(), err)
	}
	return nil
}

// Running reports whether all containers of the pod run.
func (p *Pod) Running(ctx context.Context) (bool, error) {
	for name, id := range p.ContainerIDs {
		status, err := p.stack.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			return false, fmt.Errorf("status of container %s of pod %s: %w", name, p.Key(), err)
		}
		if status.Status.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			return false, nil
		}
	}
	return true, nil
}

// ContainerProcesses returns the PIDs of one container.
func (p *Pod) ContainerProcesses(name string) []int {
	return slices.Sorted(maps.Keys(cgroupProcesses([]hierarchy{p.stack.tracked}, filepath.Join(p.CgroupParent, p.ContainerIDs[name]))))
}

// WaitGone waits until no process of the pod's containers is left.
func (p *Pod) WaitGone(ctx context.Context) error {
	err := poll(ctx, time.Millisecond, func() (bool, error) {
		for name := range p.ContainerIDs {
			if len(p.ContainerProcesses(name)) > 0 {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait until pod %s is gone: %w", p.Key(), err)
	}
	return nil
}

// awaitExits waits until the runtime has noticed the end of containers without processes: containerd 1.6 cannot stop
// one whose shim is just ending ("failed to kill container ...: ttrpc: closed").
func (p *Pod) awaitExits(ctx context.Context) error {
	return poll(ctx, time.Millisecond, func() (bool, error) {
		for name, id := range p.ContainerIDs {
			list, err := p.stack.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{Id: id}})
			if err != nil {
				return false, err
			}
			for _, c := range list.GetContainers() {
				if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING && len(p.ContainerProcesses(name)) == 0 {
					return false, nil
				}
			}
		}
		return true, nil
	})
}

// Remove stops and removes the pod, its manifest and its cgroup.
func (p *Pod) Remove(ctx context.Context) error {
	if err := os.Remove(p.Manifest); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove pod %s: %w", p.Key(), err)
	}
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = p.awaitExits(soon) // a runtime that never notices is left to the stop, which has the error
	if _, err := p.stack.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.SandboxID}); err != nil {
		return fmt.Errorf("stop pod %s: %w", p.Key(), err)
	}
	if _, err := p.stack.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.SandboxID}); err != nil {
		return fmt.Errorf("remove pod %s: %w", p.Key(), err)
	}
	if err := removeCgroup(ctx, p.stack.hierarchies, p.CgroupParent); err != nil {
		return fmt.Errorf("remove pod %s: %w", p.Key(), err)
	}
	return nil
}
