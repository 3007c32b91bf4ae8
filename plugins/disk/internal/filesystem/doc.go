// Package filesystem says where the node keeps its images, writable layers and
// pods, and how much room is left there: the layout, and the figures of the
// signals nodefs.*, imagefs.* and containerfs.*.
//
// The runtime names the directories of images and writable layers, cAdvisor's
// library says on which device a directory lies and where that is mounted, and
// each observation asks the kernel with one statfs for each filesystem. It
// does not measure what pods use (podusage) and frees nothing (gc). Nothing here
// writes, so that a full disk is observed like any other.
package filesystem
