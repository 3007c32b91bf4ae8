// Package launch starts a plugin's process and connects with it: pipes, environment,
// handshake, TLS, the lines that it writes, and its end with all that it has started.
// The host starts plugins by it and package conformance tries them by it, so that what
// is tried is what runs.
//
// The beginning is that of go-plugin, core protocol 1, which serves the plugins. It
// knows nothing of a plugin's calls, its restarts, or who may run as whom: that is
// the caller's Confinement.
package launch
