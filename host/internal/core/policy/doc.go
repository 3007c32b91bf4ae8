// Package policy decides: which thresholds are met, for how long, which node
// conditions follow, which threshold is acted on, how long a victim may take
// and its message; which pods are over limits of their own, which may start
// and which make room for critical ones.
//
// It is pure. Values and the time go in, values come out; the same input gives
// the same output in the same order. It reads no file and no clock, keeps no
// lock, logs nothing and knows neither plugins nor pods' figures beyond what it
// is given. Ranking pods is shared/eviction/rank, running passes is the loop.
//
// The rules are those of the kubelet v1.36.3 (pkg/kubelet/eviction, preemption). Where the
// kubelet picks at random, policy always picks the same.
package policy
