// Package choose chooses the pod to evict for a threshold. It lists the pods, has plugins measure
// and rank the candidates, and does both itself where plugins fail. An eviction never depends on a
// working plugin.
//
// It evicts no pod and knows former victims only from its input: it may run in the background.
package choose
