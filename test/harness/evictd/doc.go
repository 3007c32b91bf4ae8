// Package evictd runs the real evictd binary for tests and measurements:
// configuration, start, log, status and end.
//
// It uses evictd only from outside: the command line, the configuration file, the log, signals and
// the local HTTP port. It builds nothing and knows neither the node nor the container runtime. It
// returns errors instead of failing a test, so that programs other than Go tests can use it.
package evictd
