// Package victim follows an evicted pod from the decision through its kill and clean-up until its
// relief shows. It follows the kubelet's rules for grace periods, timeouts and the status of an
// evicted pod; packages victim of node and cluster kill.
//
// It does not choose pods (host/internal/core/loop) and does not decide whether one may be evicted
// (host/internal/core/policy).
package victim
