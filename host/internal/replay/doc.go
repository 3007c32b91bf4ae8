// Package replay runs a scenario (pods, figures and errors, step by step)
// through a whole eviction manager, tells what it decided, and compares that
// with decisions that were recorded before.
//
// It brings the clock, the pods, the figures, the runtime and the kills of a
// scenario; it decides nothing itself and knows no rule of eviction. The
// manager is given to it: package host's with real plugin processes in evictd
// replay, with plugins in the same process in tests.
package replay
