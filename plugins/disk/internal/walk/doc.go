// Package walk counts what a directory tree holds: allocated bytes and inodes,
// as the kubelet does for volumes and logs (pkg/volume/util/fs DiskUsage) and as
// "du -x" does. Sparse files count by their blocks, hard links once, the root
// directory itself counts, other devices do not.
//
// The tree belongs to a pod, which may be hostile: the walk goes from directory
// descriptor to directory descriptor, follows no symlink, enters no mount (not
// even one of the same device, which the kubelet would count again), opens
// nothing but directories, and holds a bounded number of descriptors and a
// bounded amount of memory whatever the tree is. It can stop after any entry and
// go on later, so that no tree, however large, holds up its caller.
//
// It is not a way to free space (package gc), keeps no results (package
// podusage), and starts no goroutines: several walks side by side are the
// caller's business. One walk is bound by one core, and several trees are what a
// node has.
package walk
