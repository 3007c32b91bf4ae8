// Package fallback reads figures for the host when no plugin does: the node's
// memory, the kubelet's filesystem and tasks, and what pods use of memory and tasks,
// through packages nodefs and figures, as the built-in plugins do.
//
// It is for the node that would else run out of memory because a plugin is
// broken, and for nothing more: it does not watch, keeps nothing open between two
// looks, walks no directory and knows nothing of images. When it is asked is
// the business of package observe.
package fallback
