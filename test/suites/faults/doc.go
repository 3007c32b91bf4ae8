// Package faults is the fault matrix: every call of the plugin contract fails in every way, in a
// built-in plugin and in a custom one beside it. A pod must be evicted nevertheless, or an
// undetectable fault is reported.
//
// What evictd reads before it decides fails in every way, too: lists of the container runtime,
// cgroups, manifests, the summary, the API server and the kubelet's files.
//
// It runs the real evictd with real plugin processes on a made-up node; test/fakes/broken is the
// plugin that fails. docs/fault-matrix.md is its table. It does not measure how fast evictions
// are otherwise: see test/suites/crossings and test/tools/bench.
package faults
