// Package uml runs the tests of a package on another kernel than this machine's: User-Mode Linux, a
// process of this machine, with the package's test binary as its only program. That kernel has
// cgroup version 2, and XFS and ext4 with project quota, independent of this machine.
//
// It shows that code works on a real kernel; its clock is unfit to measure speed.
//
// A package uses it in three places: TestMain calls Main, one test calls Run, and
// the tests that run inside have names beginning with TestGuest and call In.
package uml
