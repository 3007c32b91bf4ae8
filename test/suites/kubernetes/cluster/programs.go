package cluster

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/harness/stack"
)

// The users of the control plane's parts, whose rights the API server knows.
var (
	controllerManager = User{Name: "system:kube-controller-manager"}
	scheduler         = User{Name: "system:kube-scheduler"}
)

// programs returns the parts other than containerd, in the order of their start.
func (c *Cluster) programs() []*part {
	etcd, etcdPeer := fmt.Sprintf("http://127.0.0.1:%d", c.ports.etcd), fmt.Sprintf("http://127.0.0.1:%d", c.ports.etcdPeer)
	apiserverServes := serves(c.admin, c.server+"/readyz")
	program := func(name, dir string, command func(context.Context, string, ...string) *exec.Cmd, ready func(context.Context) error, args ...string) *part {
		return &part{
			name: name, ready: ready, log: c.Log(name),
			// Not bound to a context: the program runs until it is stopped.
			command: func() *exec.Cmd { return command(context.Background(), filepath.Join(dir, name), args...) },
		}
	}
	return []*part{
		program("etcd", c.options.Etcd, c.Command, serves(http.DefaultClient, etcd+"/health"),
			"--data-dir", filepath.Join(c.Dir, "etcd"), "--log-level=warn",
			// Durability is not needed: the data is thrown away anyway.
			"--unsafe-no-fsync",
			"--listen-client-urls", etcd, "--advertise-client-urls", etcd,
			"--listen-peer-urls", etcdPeer, "--initial-advertise-peer-urls", etcdPeer,
			"--initial-cluster", "default="+etcdPeer),
		program("kube-apiserver", c.options.Kubernetes, c.Inside, apiserverServes, append([]string{
			"--etcd-servers=" + etcd,
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.ports.apiserver),
			"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
			"--service-cluster-ip-range=10.0.0.0/24",
			"--cert-dir=" + c.authority.dir,
			"--tls-cert-file=" + c.authority.file("apiserver.crt"), "--tls-private-key-file=" + c.authority.file("apiserver.key"),
			"--client-ca-file=" + c.authority.file("ca.crt"),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=" + c.server,
			"--service-account-key-file=" + c.authority.file("accounts.key"), "--service-account-signing-key-file=" + c.authority.file("accounts.key"),
			"--kubelet-client-certificate=" + c.authority.file("apiserver-node.crt"), "--kubelet-client-key=" + c.authority.file("apiserver-node.key"),
			"--kubelet-certificate-authority=" + c.authority.file("ca.crt"), "--kubelet-preferred-address-types=Hostname",
		}, c.options.APIServer...)...),
		program("kube-controller-manager", c.options.Kubernetes, c.Command, apiserverServes, append([]string{
			"--kubeconfig=" + c.kubeconfigFile(controllerManager.Name),
			"--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=false",
			"--service-account-private-key-file=" + c.authority.file("accounts.key"), "--root-ca-file=" + c.authority.file("ca.crt"),
			"--use-service-account-credentials=true",
		}, c.options.ControllerManager...)...),
		program("kube-scheduler", c.options.Kubernetes, c.Command, apiserverServes, append([]string{
			"--kubeconfig=" + c.kubeconfigFile(scheduler.Name),
			"--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=false",
		}, c.options.Scheduler...)...),
		{name: "kubelet", ready: serves(c.admin, c.Kubelet.URL+"/healthz"), log: c.Log("kubelet"), command: func() *exec.Cmd {
			cmd := c.Inside(context.Background(), cmp.Or(c.Program.Path, filepath.Join(c.options.Kubernetes, "kubelet")), append([]string{
				"--config=" + c.KubeletConfigFile(), "--kubeconfig=" + c.KubeletKubeconfig,
				"--root-dir=" + c.KubeletRootDir, "--cert-dir=" + c.authority.dir,
				"--hostname-override=" + c.Node, "-v=2",
			}, c.options.KubeletFlags...)...)
			cmd.Env = append(os.Environ(), c.Program.Env...)
			return cmd
		}},
	}
}

// prepareNode makes the node's name resolvable for the API server, its containerd known to the
// kubelet's cAdvisor and, like systemd, its mounts visible in pods that request it.
func prepareNode(ctx context.Context, s *stack.Stack, node string) error {
	if out, err := s.Inside(ctx, "mount", "-n", "--make-rshared", "/").CombinedOutput(); err != nil {
		return fmt.Errorf("share the node's mounts: %w: %s", err, bytes.TrimSpace(out))
	}
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil {
		return err
	}
	file := filepath.Join(s.Dir, "hosts")
	if err := os.WriteFile(file, fmt.Appendf(hosts, "\n127.0.0.1 %s\n", node), 0o644); err != nil {
		return err
	}
	if out, err := s.Inside(ctx, "mount", "-n", "--bind", file, "/etc/hosts").CombinedOutput(); err != nil {
		return fmt.Errorf("name the node in /etc/hosts: %w: %s", err, bytes.TrimSpace(out))
	}
	// It has no setting for the socket since Kubernetes 1.37.
	if out, err := s.Inside(ctx, "ln", "-sfn", s.Socket, "/run/containerd/containerd.sock").CombinedOutput(); err != nil {
		return fmt.Errorf("serve containerd in /run/containerd: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// CalmThresholds returns an evictionHard that names every signal, but is met only when the
// machine is almost out of memory.
func CalmThresholds() map[string]any {
	return map[string]any{
		"memory.available": "100Mi", "pid.available": "0%",
		"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
	}
}

// KubeletConfigFile returns the path of the kubelet's configuration.
func (c *Cluster) KubeletConfigFile() string { return filepath.Join(c.Dir, "kubelet.yaml") }

// writeKubeletConfig writes the configuration for the kubelet's next start.
func (c *Cluster) writeKubeletConfig(keys map[string]any) error {
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": "127.0.0.1", "port": c.ports.kubelet, "healthzPort": 0,
		"tlsCertFile": c.authority.file("kubelet.crt"), "tlsPrivateKeyFile": c.authority.file("kubelet.key"),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"x509":      map[string]any{"clientCAFile": c.authority.file("ca.crt")},
			"webhook":   map[string]any{"enabled": true},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"containerRuntimeEndpoint": "unix://" + c.Socket,
		"staticPodPath":            c.ManifestDir,
		"podLogsDir":               c.PodLogsDir,
		"volumePluginDir":          filepath.Join(c.Dir, "volume-plugins"),
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               c.CgroupRoot,
		"failCgroupV1":             false,
		"failSwapOn":               false,
		"makeIPTablesUtilChains":   false,
		"resolvConf":               "",
		// Images cannot be pulled again, and the machine's own disk must not affect the cluster.
		"imageGCHighThresholdPercent": 100,
		"evictionHard":                CalmThresholds(),
	}
	maps.Copy(config, keys)
	text, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("configure kubelet: %w", err)
	}
	return os.WriteFile(c.KubeletConfigFile(), text, 0o600)
}
