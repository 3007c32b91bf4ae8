// Package walk counts what a directory tree takes: allocated bytes and inodes, as the kubelet does
// for volumes and logs (pkg/volume/util/fs, DiskUsage). Sparse files count by their blocks, hard
// links once, the root directory counts, other devices do not.
//
// The tree belongs to a pod, which may be hostile. The walk goes from directory descriptor to
// directory descriptor, follows no symlink, enters no mount (not even of the same device, whose
// files the kubelet counts), opens only directories, and holds a bounded number of descriptors and
// a bounded amount of memory for any tree. It can stop after any entry and continue later, so that
// a large tree does not hold up its caller.
//
// It avoids two accidental errors of the kubelet's walk, which fails in a tree with paths longer
// than PATH_MAX, and skips the rest of a directory after a file on another device.
//
// It frees no space, keeps no results, and starts no goroutines: a walk uses one
// core, and a node has many trees that can be walked in parallel.
package walk
