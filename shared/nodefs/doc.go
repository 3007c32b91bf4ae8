// Package nodefs reads what the kernel says of a node: memory and tasks of /proc
// and of the cgroup hierarchies, version 1 and 2, the room on filesystems, and the
// names that the kubelet gives to the cgroups of pods. The plugins read through
// it, and the host does when a plugin is gone.
//
// Every path goes through one root, so that a container sees the node below a
// mount and a test sees a directory of its own. Reading is apart from parsing:
// parsers are pure functions of bytes. Readers keep their descriptors open and
// allocate nothing once they run.
//
// It is not a policy (nothing here knows a threshold), not a general cgroup
// library (nothing is written) and not a cache: each read asks the kernel.
package nodefs
