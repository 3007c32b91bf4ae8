// Package cri is the disk plugin's connection to the container runtime: the two
// services of CRI on one or two sockets.
//
// It is only the connection. The callers decide about the calls and their deadlines.
package cri
