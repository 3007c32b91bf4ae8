// Package sdk is what the author of an evictd plugin needs: serving a plugin,
// ranking by comparators, reading its configuration, logging.
//
// A plugin is a value with the capabilities that it has:
//
//	func main() {
//		sdk.Serve(sdk.Plugin{
//			Name:    "oldest",
//			Signals: sdk.Signals(eviction.MemoryAvailable),
//			Ranker:  sdk.RankBy(byStartTime),
//		})
//	}
//
// The contract is in package eviction, which this package only serves. Put the
// executable into the host's plugin directory and it takes over what it offers.
//
// Standard output belongs to the handshake with the host. Importing this
// package moves file descriptor 1 to standard error when the host is the
// parent, so prints end up in the log. Only an init function that runs before
// this package's (of a package that does not depend on it and sorts before it)
// can still print too early.
package sdk
