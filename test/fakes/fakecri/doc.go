// Package fakecri is a container runtime for tests of faults: it speaks CRI on a
// unix socket, or directly, keeps pods in memory and does as a test says: answers
// late, fails, hangs, dies in the middle of a call and comes back.
//
// It runs nothing. What real containers do is tested with a real containerd.
package fakecri
