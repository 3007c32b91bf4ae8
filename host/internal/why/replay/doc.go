// Package replay runs a scenario (pods, figures and errors, step by step) through a complete
// eviction manager, reports its decisions, and compares them with recorded ones.
//
// It simulates the clock, the pods, the figures, the runtime and the kills of a scenario; it
// decides nothing itself and knows no rule of eviction. The caller provides the manager: package
// host with real plugin processes in evictd replay, with in-process plugins in tests.
package replay
