// Package launch starts a plugin's process and connects to it: pipes, environment, handshake, TLS,
// output lines, and its end together with all that it has started. The host and package conformance
// both start plugins with it, so that the tested path is the one that runs.
//
// The handshake is go-plugin's, core protocol 1, which also serves the plugins. The package knows
// nothing of a plugin's calls, restarts or user: the last is up to the caller's Confinement.
package launch
