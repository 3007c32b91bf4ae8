// Package walk counts what a directory tree holds: allocated bytes and inodes,
// as the kubelet does for volumes and logs (pkg/volume/util/fs, DiskUsage).
// Sparse files count by their blocks, hard links once, the root directory itself
// counts, other devices do not.
//
// The tree belongs to a pod, which may be hostile. The walk goes from directory
// descriptor to directory descriptor, follows no symlink, enters no mount (nor
// one of the same device, whose files the kubelet counts), opens nothing but
// directories, and holds a bounded number of descriptors and a bounded amount of
// memory, whatever the tree is. It can stop after any entry and go on later, so
// that no tree, however large, holds up its caller.
//
// Two accidents of the kubelet's way are not repeated: a tree whose paths grow
// longer than PATH_MAX makes it fail, and a file on another device makes it skip
// the rest of that directory.
//
// It is not a way to free space, keeps no results, and starts no goroutines: a
// walk is bound by one core, and a node has many trees to walk side by side.
package walk
