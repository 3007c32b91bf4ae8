// Package dirtree removes directory trees made by another program, which may have made them as
// deep and as large as possible.
//
// It follows no symbolic links, and moves directories while it removes them. The caller decides
// which tree to remove.
package dirtree
