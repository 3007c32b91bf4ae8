// Package kubernetes has the tests of evictions in a real cluster: etcd, the control
// plane and the kubelet of Kubernetes 1.36 with a containerd, all on this machine.
//
// A story starts a cluster with start, and evictd beside its kubelet with startEvictd.
// What an eviction leaves in the API is taken and compared by package record. It is a
// module of its own, so that what only tests need is no requirement of evictd.
package kubernetes
