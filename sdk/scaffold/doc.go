// Package scaffold writes the start of a plugin: a Go module that builds, whose
// tests pass and which evictd runs as it is.
//
// It only writes files. It runs neither go nor git, fetches nothing, and changes
// nothing that is there already.
package scaffold
