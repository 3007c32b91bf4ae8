// Package sandbox confines the processes of plugins: their user, capabilities, memory, CPU and
// tasks, and the directory of their socket (docs/decisions/0012). The host and package conformance
// confine plugins with it in the same way. It starts nothing itself: package launch does, with a
// Sandbox as its Confinement. Which file may be executed is up to the host.
package sandbox
