// Package e2e has the tests of evictd on real disks and with real processes: a
// real containerd, small filesystems in loop-mounted files, pods laid out as the
// kubelet lays them out, the evictd and the plugins that `make build` made.
//
// Each test prints its story: what each step of reclaim released, who was evicted
// and why. It is a module of its own, so that what only tests need is no
// requirement of evictd.
package e2e
