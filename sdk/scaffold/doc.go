// Package scaffold writes the start of a plugin: a Go module that builds, whose
// tests pass and which evictd runs as it is.
//
// It only writes new files. It runs neither go nor git, fetches nothing, and changes
// no existing files.
package scaffold
