// Package registry says who serves what: which of the running plugins is asked for
// a capability of a signal, who stands by, who conflicts with whom, and why. It
// knows nothing of processes; a Registry is made again from values whenever
// something has changed, and never changes itself. Current counts who still uses
// the instances of which one.
package registry
