// Command keep starts a cluster, prints how to use it, and removes it on Ctrl-C.
//
// It is not a test: `make cluster` runs it for interactive use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/chartvalues"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

func main() {
	stack.SweepIfGuard()
	os.Exit(run())
}

func run() int {
	var o cluster.Options
	flag.StringVar(&o.Kubernetes, "kubernetes", "", "directory with the programs of Kubernetes")
	flag.StringVar(&o.Etcd, "etcd", "", "directory with etcd")
	flag.StringVar(&o.Containerd, "containerd", "", "directory with a containerd in place of the distribution's")
	helm := flag.String("helm", "", "path of helm")
	flag.Parse()
	o.Progress = func(what string, after time.Duration) { fmt.Printf("%6.1f s  %s\n", after.Seconds(), what) }

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	err := keep(ctx, o, *helm)
	var left *stack.LeftBehindError // takes precedence over all other errors, even after Ctrl-C
	if err != nil && (ctx.Err() == nil || errors.As(err, &left)) {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return 1
	}
	fmt.Println("everything is cleaned up")
	return 0
}

// keep runs a cluster until ctx ends.
func keep(ctx context.Context, o cluster.Options, helm string) (err error) {
	if err := stack.Prepare(); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }() //nolint:contextcheck // cleaning up must work after Ctrl-C
	values, err := writeValues(ctx, c)
	if err != nil {
		return err
	}
	fmt.Printf(`
The cluster runs. In another terminal:

  export KUBECONFIG=%s PATH=%s:%s:$PATH
  kubectl get nodes

evictd in it, from the checkout, with its values in %s:

  make image VERSION=%s PACKAGE_ARCHES=%s
  ctr -a %s -n k8s.io images import dist/evictd_%[5]s_oci.tar
  helm install evictd deploy/chart --namespace evictd --create-namespace --values %[4]s

What the kubelet is configured with (the API server's proxy refuses addresses of loopback):

  curl -s --cacert %[8]s/ca.crt --cert %[8]s/apiserver-node.crt --key %[8]s/apiserver-node.key %[9]s/configz

Images: %[10]s, %[11]s (imagePullPolicy Never; pods need hostNetwork: true)
Containerd: unix://%[7]s
The kubelet's credentials: %[12]s
Logs and all files: %[13]s

Ctrl-C ends it and removes everything.
`, c.AdminKubeconfig, filepath.Clean(o.Kubernetes), filepath.Dir(helm), values, version, runtime.GOARCH, c.Socket, filepath.Dir(c.AdminKubeconfig), c.Kubelet.URL,
		stack.PodImage, "localhost/evictd/hog:1", c.KubeletKubeconfig, c.Dir)
	<-ctx.Done()
	return nil
}

// version of evictd's image, as in the README.
const version = "0.1.0"

// writeValues writes values of the chart for the cluster into a file.
func writeValues(ctx context.Context, c *cluster.Cluster) (file string, err error) {
	values, err := chartvalues.For(ctx, c, "ghcr.io/evictd/evictd", version)
	if err != nil {
		return "", err
	}
	values["besideKubelet"] = map[string]any{"config": c.KubeletConfigFile()}
	// Above the kubelet's, and the machine's own disk does not matter.
	hard := cluster.CalmThresholds()
	hard["memory.available"] = "200Mi"
	values["config"].(map[string]any)["evictionHard"] = hard
	text, err := yaml.Marshal(values)
	if err != nil {
		return "", err
	}
	file = filepath.Join(c.Dir, "values.yaml")
	return file, os.WriteFile(file, text, 0o600)
}
