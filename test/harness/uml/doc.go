// Package uml runs the tests of a package on another kernel than this machine's:
// User-Mode Linux, a process of this machine, started with the package's own
// test binary as its only program. That kernel has cgroup version 2, XFS and ext4
// with project quota, whatever this machine has.
//
// It shows that code does the right thing on a real kernel; its clock is no
// measure of speed.
//
// A package uses it in three places: TestMain calls Main, one test calls Run, and
// the tests that run inside have names that begin with TestGuest and call In.
package uml
