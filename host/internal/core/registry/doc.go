// Package registry determines which running plugin is asked for a capability of a signal, and which
// are its fallbacks. It knows nothing of processes; a Registry is immutable and rebuilt after each
// change. Current counts the users of its instances.
package registry
