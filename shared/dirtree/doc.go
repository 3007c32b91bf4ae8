// Package dirtree removes directory trees that another program has made, which may have
// made them as deep and as large as he could.
//
// It follows no symbolic link and leaves no file where it was to remove one;
// whether a tree is to go is its caller's to know.
package dirtree
