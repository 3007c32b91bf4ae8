package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// Whom the API server takes the parts of the control plane for: it knows their rights.
var (
	controllerManager = User{Name: "system:kube-controller-manager"}
	scheduler         = User{Name: "system:kube-scheduler"}
)

// programs are the parts other than containerd, in the order in which they start.
func (c *Cluster) programs() []*part {
	return []*part{
		c.program("etcd", c.options.Etcd, c.Command, c.etcdServes,
			"--data-dir", filepath.Join(c.Dir, "etcd"), "--log-level=warn",
			// What is lost when the machine stops is thrown away anyway.
			"--unsafe-no-fsync",
			"--listen-client-urls", c.etcd(), "--advertise-client-urls", c.etcd(),
			"--listen-peer-urls", loopback(c.ports.etcdPeer), "--initial-advertise-peer-urls", loopback(c.ports.etcdPeer),
			"--initial-cluster", "default="+loopback(c.ports.etcdPeer)),
		c.program("kube-apiserver", c.options.Kubernetes, c.Command, c.apiserverServes, append([]string{
			"--etcd-servers=" + c.etcd(),
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.ports.apiserver),
			"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
			"--service-cluster-ip-range=10.0.0.0/24",
			"--cert-dir=" + c.authority.dir,
			"--tls-cert-file=" + c.authority.file("apiserver.crt"), "--tls-private-key-file=" + c.authority.file("apiserver.key"),
			"--client-ca-file=" + c.authority.file("ca.crt"),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=" + c.server(),
			"--service-account-key-file=" + c.authority.file("accounts.key"), "--service-account-signing-key-file=" + c.authority.file("accounts.key"),
			"--kubelet-client-certificate=" + c.authority.file("apiserver-node.crt"), "--kubelet-client-key=" + c.authority.file("apiserver-node.key"),
			"--kubelet-certificate-authority=" + c.authority.file("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		}, c.options.APIServer...)...),
		c.program("kube-controller-manager", c.options.Kubernetes, c.Command, c.apiserverServes, append([]string{
			"--kubeconfig=" + c.kubeconfigFile(controllerManager.Name),
			"--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=false",
			"--service-account-private-key-file=" + c.authority.file("accounts.key"), "--root-ca-file=" + c.authority.file("ca.crt"),
			"--use-service-account-credentials=true",
		}, c.options.ControllerManager...)...),
		c.program("kube-scheduler", c.options.Kubernetes, c.Command, c.apiserverServes, append([]string{
			"--kubeconfig=" + c.kubeconfigFile(scheduler.Name),
			"--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=false",
		}, c.options.Scheduler...)...),
		c.program("kubelet", c.options.Kubernetes, c.Inside, c.kubeletServes, append([]string{
			"--config=" + c.kubeletConfigFile(), "--kubeconfig=" + c.KubeletKubeconfig,
			"--root-dir=" + c.KubeletRootDir, "--cert-dir=" + c.authority.dir,
			"--hostname-override=" + c.Node, "--node-ip=127.0.0.1", "--containerd=" + c.Socket, "-v=2",
		}, c.options.KubeletFlags...)...),
	}
}

func (c *Cluster) program(name, dir string, command func(context.Context, string, ...string) *exec.Cmd, ready func(context.Context) error, args ...string) *part {
	return &part{
		name: name, ready: ready, log: c.Log(name),
		// Not bound to a context: it lives until it is stopped.
		command: func() *exec.Cmd { return command(context.Background(), filepath.Join(dir, name), args...) },
	}
}

func loopback(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

func (c *Cluster) etcd() string { return loopback(c.ports.etcd) }

func (c *Cluster) etcdServes(ctx context.Context) error {
	return serves(ctx, http.DefaultClient, c.etcd()+"/health")
}

func (c *Cluster) apiserverServes(ctx context.Context) error {
	return serves(ctx, c.admin, c.server()+"/readyz")
}

func (c *Cluster) kubeletServes(ctx context.Context) error {
	return serves(ctx, c.admin, fmt.Sprintf("https://127.0.0.1:%d/healthz", c.ports.kubelet))
}

// serves reports an error unless the address answers with 200.
func serves(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}

func (c *Cluster) kubeletConfigFile() string { return filepath.Join(c.Dir, "kubelet.yaml") }

// writeKubeletConfig writes what the kubelet reads at its next start.
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
		// Images cannot be had again, and the machine's own disk is no matter of the cluster's.
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]any{
			"memory.available": "100Mi", "pid.available": "0%",
			"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
	}
	for key, value := range keys {
		config[key] = value
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("configure kubelet: %w", err)
	}
	return os.WriteFile(c.kubeletConfigFile(), text, 0o600)
}
