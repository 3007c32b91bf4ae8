// Package cri is the disk plugin's connection to the container runtime: the two
// services of CRI on one socket or two.
//
// It is only the connection. What is asked of the runtime, and with which
// deadline, is the caller's.
package cri
