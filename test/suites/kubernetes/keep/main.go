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
	"syscall"
	"time"

	"github.com/evictd/evictd/test/harness/stack"
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
	flag.Parse()
	o.Progress = func(what string, after time.Duration) { fmt.Printf("%6.1f s  %s\n", after.Seconds(), what) }

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	err := keep(ctx, o)
	var left *stack.LeftBehindError // takes precedence over all other errors, even after Ctrl-C
	if err != nil && (ctx.Err() == nil || errors.As(err, &left)) {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return 1
	}
	fmt.Println("everything is cleaned up")
	return 0
}

// keep runs a cluster until ctx ends.
func keep(ctx context.Context, o cluster.Options) (err error) {
	if err := stack.Prepare(); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }() //nolint:contextcheck // cleaning up must work after Ctrl-C
	fmt.Printf(`
The cluster runs. In another terminal:

  export KUBECONFIG=%s PATH=%s:$PATH
  kubectl get nodes

Images: %s, %s (imagePullPolicy Never; pods need hostNetwork: true)
Containerd: unix://%s
The kubelet's credentials: %s
Logs and all files: %s

Ctrl-C ends it and removes everything.
`, c.AdminKubeconfig, filepath.Clean(o.Kubernetes), stack.PodImage, "localhost/evictd/hog:1", c.Socket, c.KubeletKubeconfig, c.Dir)
	<-ctx.Done()
	return nil
}
