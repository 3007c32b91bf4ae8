// Package cgroupv2 contains only a test: the memory plugin on a real kernel with
// cgroup version 2 (package uml), independent of this machine's version.
package cgroupv2
