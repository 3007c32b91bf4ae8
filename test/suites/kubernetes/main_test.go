package kubernetes_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// What a run that is killed leaves is removed by a child of it, or by the next run.
func TestMain(m *testing.M) {
	stack.SweepIfGuard()
	crossing.RunIfChild()
	if os.Getenv("EVICTD_TEST_K8S") != "1" {
		fmt.Println("needs root, containers and the programs of Kubernetes: run make e2e-k8s")
		os.Exit(m.Run())
	}
	if os.Getenv("EVICTD_KUBELET") != "" {
		// What is mounted then ends with the tests.
		if err := stack.PrivateMounts(); err != nil {
			fmt.Fprintln(os.Stderr, "kubelet-e2e:", err)
			os.Exit(1)
		}
	}
	if err := stack.Prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e-k8s:", err)
		os.Exit(1)
	}
	if os.Getenv(ownerEnv) != "" {
		os.Exit(own())
	}
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e-k8s:", err)
		code = 1
	}
	os.Exit(code)
}

// With ownerEnv this test binary is somebody who starts a cluster, says where, and waits
// to be killed.
const ownerEnv = "EVICTD_TEST_K8S_OWNER"

func own() int {
	c, err := cluster.Start(context.Background(), programs())
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(c.Dir)
	select {}
}

// programs are those that `make e2e-k8s` names.
func programs() cluster.Options {
	return cluster.Options{Kubernetes: os.Getenv("EVICTD_KUBERNETES"), Etcd: os.Getenv("EVICTD_ETCD"), Containerd: os.Getenv("EVICTD_CONTAINERD")}
}
