// Package fakecri is a fake container runtime for fault tests: it serves CRI on a unix
// socket, or directly, keeps pods in memory, and on request answers late, fails,
// hangs, dies in the middle of a call and comes back.
//
// It runs nothing. Tests of real containers use a real containerd.
package fakecri
