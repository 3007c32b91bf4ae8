// Package evictd runs the real evictd binary for whoever tests or measures it:
// configuration, start, log, status and end.
//
// It knows evictd only from outside: the command line, the configuration file,
// the log, signals and the local HTTP port. It builds nothing and knows neither
// the node nor the container runtime below; its errors are for the caller, so it
// also serves programs that are no Go tests.
package evictd
