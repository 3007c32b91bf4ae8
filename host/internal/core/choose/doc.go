// Package choose chooses the pod to evict for a threshold: it lists the pods, has the candidates
// measured and ranked by plugins, and does so itself where they fail. An eviction never depends on
// a working plugin.
//
// It evicts no pod and knows former victims only from its input: it may run in the background.
package choose
