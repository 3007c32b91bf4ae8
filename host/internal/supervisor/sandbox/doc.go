// Package sandbox confines the processes of plugins: who they run as, what
// capabilities, memory, CPU and tasks they have, which file exactly is executed, and
// where their sockets are (docs/decisions/0012). It starts nothing by itself:
// shared/launch does, with a Sandbox as its confinement.
package sandbox
