// Package scaffold writes the start of a plugin: a Go module, or sources in Python, that
// build, whose tests pass and which evictd runs as they are.
//
// It only writes new files. It runs neither go nor git, fetches nothing, and changes
// no existing files.
package scaffold
