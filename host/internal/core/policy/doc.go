// Package policy decides by the kubelet's rules: thresholds, node conditions, the threshold to act
// on, grace and message. It also decides which pods are over limits of their own, and for package
// admission when resources are short.
//
// It is pure. Values and the time go in, values come out; the same input gives
// the same output in the same order. It reads no file and no clock, keeps no
// lock, logs nothing and knows neither plugins nor pods' figures beyond what it
// is given. Ranking pods is shared/eviction/rank, running passes is the loop.
//
// The rules are those of the kubelet v1.36.3 (pkg/kubelet/eviction, preemption). Where the
// kubelet picks at random, policy always picks the same.
package policy
