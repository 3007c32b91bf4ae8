// Package daemon runs the real evictd binary with real plugin processes in Go tests: it builds
// them once, starts the daemon with test/harness/evictd, fails the test on its errors, and
// ends the daemon with the test.
//
// The node below it can be a made-up directory tree (Node), so that a test
// changes memory.available by writing a file.
package daemon
