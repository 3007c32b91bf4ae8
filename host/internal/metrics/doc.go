// Package metrics holds the figures that evictd exposes to Prometheus: the
// kubelet's of eviction and preemption under their own names, and those of
// evictd.
//
// It counts what others tell it. It decides nothing, logs nothing and is not the
// JSON status, which says what holds now in words. Every label has a bounded set
// of values, whatever plugins call themselves and their signals.
package metrics
