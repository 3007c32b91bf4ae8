// Package paritytest compares evictd with the kubelet: the real eviction manager
// and the real preemption of k8s.io/kubernetes against package host with the
// plugins' own code, over random scenarios. It holds no code of evictd and is a
// module of its own, so that nobody who uses evictd gets k8s.io/kubernetes.
package paritytest
