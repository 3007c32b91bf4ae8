// Package cgroupv2 has no code, only a test: the memory plugin on a real kernel
// with cgroup version 2, whatever this machine's own version is.
//
// The kernel is User-Mode Linux: a process of this machine, started with this
// very test binary as its only program. What it shows is that the plugin reads a
// real version 2 hierarchy; its clock is no measure of speed.
package cgroupv2
