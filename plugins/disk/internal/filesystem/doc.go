// Package filesystem finds the filesystems of images, writable layers and pods, and
// reads their free space: it provides the layout and the figures of the signals
// nodefs.*, imagefs.* and containerfs.*.
//
// The runtime names the directories of images and writable layers, cAdvisor's library finds the
// device of a directory and its mount point, and each observation makes one statfs call per
// filesystem. The package does not measure the usage of pods (podusage) and frees nothing (gc). It
// writes nothing, so that a full disk is observed like any other.
package filesystem
