// Package replay runs a scenario step by step through a complete eviction manager. It reports the
// decisions, and compares them with recorded ones. A scenario has pods, figures and errors.
//
// It simulates the clock, the pods, the figures, the runtime and the kills of a scenario; it
// decides nothing itself and knows no rule of eviction. The caller provides the manager: package
// host with real plugin processes in evictd replay, with in-process plugins in tests.
package replay
