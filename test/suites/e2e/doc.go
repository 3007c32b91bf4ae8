// Package e2e tests evictd on real disks and with real processes: a real containerd, small
// filesystems in loop-mounted files, pods laid out as the kubelet lays them out, the evictd and
// the plugins from `make build`.
//
// Each test prints what happens: what each reclaim step released, which pod was evicted and why. It
// is a separate module, so that evictd does not require what only tests need.
package e2e
