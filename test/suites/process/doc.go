// Package process tests the real evictd with real plugin processes on a made-up
// node and container runtime: what happens when processes die, hang or lie, and
// what an operator gets to read when something is wrong.
package process
