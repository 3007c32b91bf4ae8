// Command bench runs the real programs of evictd and prints their cost, also as a ratio to a peer
// measured in the same run: the round trips through the memory plugin's process, the cost of all
// processes while nothing happens, the time from a crossing to the victim, and the bytes of modules.
//
// It needs root and a cgroup v1 memory hierarchy. It never fails because of a time: machines
// differ, and the design's budgets are printed beside the figures for the reader. Code within one
// process (policy, conversion, parsers) is measured by the Go benchmarks of its packages, not here.
package main
