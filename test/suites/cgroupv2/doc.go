// Package cgroupv2 has no code, only a test: the memory plugin on a real kernel
// with cgroup version 2 (package uml), whatever this machine's own version is.
package cgroupv2
