// Package victim kills pods and keeps their state: from the decision to evict a pod, through its
// kill and its clean-up, until its relief has come back. It follows the kubelet's rules for grace
// periods, timeouts and the status of an evicted pod; its package cri kills pods through the
// container runtime.
//
// It does not choose pods (host/internal/core/loop) and does not decide whether one may be evicted
// (host/internal/core/policy).
package victim
