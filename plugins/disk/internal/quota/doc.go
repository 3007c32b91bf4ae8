// Package quota asks the filesystem for the usage of a directory that is a
// project of its own: one system call instead of a walk.
package quota
