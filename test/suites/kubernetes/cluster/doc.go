// Package cluster runs a Kubernetes cluster of one node on this machine: etcd, the API
// server, the controller manager, the scheduler and the kubelet as released, with the
// containerd of test/harness/stack, all on separate ports of loopback.
//
// It is not a cluster for real work: pods share the host's network, there is no CNI plugin, no
// kube-proxy and no registry, and all state is thrown away. Everything runs in the stack's cgroup
// and mount namespace, and is removed like a stack, even after the owner was killed.
package cluster
