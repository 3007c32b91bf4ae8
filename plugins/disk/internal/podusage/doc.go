// Package podusage measures what pods take of the node's disks: writable layers
// by the runtime's figures and by walking, logs and local volumes by walking their
// directories, or by project quota where the filesystem has it.
//
// The figures are the kubelet's, obtained in other ways: docs/disk.md explains how, and the
// differences. The package decides nothing and reads nothing before a call: it has no background
// loop, and never returns an old figure as a new one.
package podusage
