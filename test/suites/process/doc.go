// Package process tests the real evictd with real plugin processes on a made-up node and container
// runtime: what happens if processes die, hang or lie, and the messages that an operator gets then.
package process
