// Command bench runs the real programs of evictd and prints what they cost, in
// one run and as ratios to a peer that ran in the same run: the round trips
// through the memory plugin's process, what all processes cost while nothing
// happens, and the time from a crossed threshold to the victim.
//
// Needs root and a cgroup v1 memory hierarchy. It never passes or fails on a
// time: machines differ, and the budgets of the design stand beside the figures
// for the reader. Parts of one process (policy, conversion, parsers) are measured
// by the Go benchmarks of their packages, not here.
package main
