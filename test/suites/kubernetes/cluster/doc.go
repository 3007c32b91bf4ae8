// Package cluster runs a Kubernetes cluster of one node on this machine: etcd, the API
// server, the controller manager, the scheduler and the kubelet as released, with the
// containerd of test/harness/stack, all on loopback with ports of their own.
//
// It is not a cluster to work with: pods share the host's network, there is no CNI
// plugin, no kube-proxy and no registry, and all state is thrown away. What it starts
// lives in the stack's cgroup and in the stack's mount namespace, and is removed as a stack
// is, also after the owner was killed.
package cluster
