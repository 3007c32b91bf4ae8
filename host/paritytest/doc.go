// Package paritytest compares evictd with the kubelet: the real eviction manager and preemption of
// k8s.io/kubernetes against package host with the plugins' own code, over random scenarios. It is a
// separate module, so that users of evictd do not depend on k8s.io/kubernetes.
package paritytest
