// Package agent runs the real evictd binary with its plugins against a stack
// and reads its log.
//
// It knows evictd only from outside: the command line, the configuration file,
// the log, signals and the local HTTP port.
package agent
