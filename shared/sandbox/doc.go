// Package sandbox confines the processes of plugins: who they run as, what
// capabilities, memory, CPU and tasks they have, and where their sockets are
// (docs/decisions/0012). The host's plugins and those that package conformance tries are
// confined by it alike. It starts nothing by itself: package launch does, with a Sandbox
// as its confinement. Which file may be executed is the host's to decide.
package sandbox
