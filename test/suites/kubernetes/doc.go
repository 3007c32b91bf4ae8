// Package kubernetes tests evictions in a real cluster: etcd, the control plane and the
// kubelet of Kubernetes with a containerd, all on this machine.
//
// A test starts a cluster with start, and evictd beside its kubelet with startEvictd. Package
// record captures and compares what an eviction leaves in the API. It is a separate module, so
// that evictd does not require what only tests need.
package kubernetes
