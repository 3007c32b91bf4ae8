// Package nodefs reads the kernel's figures of a node: memory and tasks from /proc
// and from the cgroup hierarchies, version 1 and 2, and the free space of filesystems.
// It also knows the kubelet's names for the cgroups of pods. The plugins read through
// it, and so does the host when a plugin is gone.
//
// Every path is resolved below one root, so that a container can read the node below a mount, and a
// test a directory. Reading is separate from parsing: parsers are pure functions of bytes. Readers
// keep their descriptors open and do not allocate once they run.
//
// It contains no policy (no thresholds), is no general cgroup library (it writes
// nothing but cgroup.kill) and no cache: each read asks the kernel.
package nodefs
