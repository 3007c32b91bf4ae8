// Package lastresort reads the node's own figures for the host when no plugin
// does: memory, the kubelet's filesystem and tasks, through package nodefs and by
// the formulas of the built-in plugins.
//
// It is for the node that would else run out of memory because a plugin is
// broken, and for nothing more: it neither measures pods nor watches, keeps
// nothing open between two looks and knows nothing of images. When it is asked is
// the business of package loop.
package lastresort
