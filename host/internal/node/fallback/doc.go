// Package fallback reads figures of the node and of pods for the host when no plugin does. It
// reads the node's memory, the kubelet's filesystem and tasks, and the memory and tasks of pods
// through packages nodefs and figures, like the built-in plugins.
//
// It only protects a node from running out of memory because a plugin is broken: it does not watch,
// keeps open only what the host samples, walks no directory and does not know images. Package
// observe decides when to use it.
package fallback
