// Package podusage measures what pods take of the node's disks: writable layers
// by the runtime's figures, logs and local volumes by looking at their
// directories, or by project quota where the filesystem has it.
//
// The figures are the kubelet's, made in other ways: docs/disk.md says how, and
// where they differ. Nothing is decided here, and nothing is read before a caller
// asks: there is no loop in the background, and no figure is handed out as new
// that is not.
package podusage
