// Package victim ends pods and keeps what there is to know of them: from the decision
// that a pod goes, by way of its kill and its clean-up, until its relief has come
// back. It has the kubelet's rules for grace periods, time-outs and the status that an
// eviction leaves behind; its package cri ends pods through the container runtime.
//
// It does not choose pods (host/internal/loop) and does not decide whether one may
// go (host/internal/policy).
package victim
