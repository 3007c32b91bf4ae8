// Package registry determines which of the running plugins is asked for a capability of a signal,
// which are its fallbacks, which conflict, and why. It knows nothing of processes; a Registry is
// immutable and rebuilt after each change. Current counts the users of its instances.
package registry
