// Package victim ends pods, with the kubelet's rules for grace periods, time-outs
// and the status that an eviction leaves behind. Its package cri does so through the
// container runtime.
//
// It does not choose pods (host/internal/policy) and does not wait beside the
// loop for them to be gone (host/internal/loop).
package victim
