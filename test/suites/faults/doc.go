// Package faults is the fault matrix: every call of the plugin contract goes wrong
// in every way, in a built-in plugin and in a custom one beside it, and a pod is
// evicted all the same, or what nobody can see is reported.
//
// It runs the real evictd with real plugin processes on a made-up node; cmd/broken
// is the plugin that goes wrong. docs/fault-matrix.md is its table. It says nothing
// of how fast evictions are otherwise: that is test/suites/crossings and test/tools/bench.
package faults
