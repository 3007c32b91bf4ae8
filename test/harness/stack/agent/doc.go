// Package agent starts the real evictd binary with its plugins to manage the pods of a stack.
// Package evictd then shows the caller what it does.
package agent
