// Package daemon runs the real evictd binary with real plugin processes in
// tests: it builds them once, writes a configuration, starts the daemon, reads
// its log and status, and ends it.
//
// The node below it can be a made-up directory tree (Node), so that a test
// moves memory.available by writing a file.
package daemon
