// Package pid is the plugin for pid.available: it observes it, measures the
// tasks of pods and ranks by the kubelet's rule. Its figures come from /proc, by
// the kubelet's formula, and from the pids controller of cgroup version 1 and 2,
// or from the kubelet's stats summary where the host serves one. Natively
// pid.available is what is left to pods: of the machine's limit, or of that of the
// cgroup of all pods where this is closer.
//
// pid.available counts tasks, which are threads, and so does the pids controller:
// natively pods rank by what they take of it. The kubelet's process_count sums the
// processes of a pod's containers instead: a pod of few processes with thousands
// of threads looks small to it, and the sandbox's one process is left out.
//
// It can be served as it is (plugins/builtin) or taken apart: the plugin is a value, and
// a vendor may replace or clear a field of it.
package pid
