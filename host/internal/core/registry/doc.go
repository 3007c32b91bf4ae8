// Package registry determines which running plugin is asked for a capability of a signal, its
// fallbacks, and conflicts. It knows nothing of processes; a Registry is immutable and rebuilt
// after each change. Current counts the users of its instances.
package registry
