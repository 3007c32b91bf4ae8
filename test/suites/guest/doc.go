// Package guest contains only tests: evictd on a typical Kubernetes node, with systemd as
// init, cgroup version 2, and the distribution's containerd and runc, installed as
// docs/operations.md says.
//
// The node is User-Mode Linux (package uml) with a Debian that rootfs.sh makes. Its
// clock is unfit to measure speed.
package guest
