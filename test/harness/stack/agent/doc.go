// Package agent starts the real evictd binary with its plugins so that it looks
// after a stack. What it does then, package evictd lets the caller see.
package agent
