// Package guest has tests only: evictd on a node as Kubernetes' nodes are, with
// systemd as its init, cgroup version 2, and the distribution's containerd and runc,
// installed as docs/operations.md says.
//
// The node is User-Mode Linux (package uml) with a Debian that rootfs.sh makes. Its
// clock is no measure of speed.
package guest
