// Package pid is the plugin for pid.available: it observes the signal, measures the tasks of pods
// and ranks by the kubelet's rule. Its figures come from /proc, by the kubelet's formula, and from
// the pids controller of cgroup version 1 and 2, or from the kubelet's stats summary if the host
// serves one. Natively pid.available is the number of tasks that pods can still start: below the
// machine's limit, or below that of the cgroup of all pods if that is closer.
//
// pid.available counts tasks, which are threads, and so does the pids controller:
// natively pods rank by their tasks. The kubelet's process_count sums up the
// processes of a pod's containers instead: a pod of few processes with thousands
// of threads looks small to it, and the sandbox's one process is left out.
//
// It can be served as it is (plugins/builtin) or be modified: the plugin is a value, and
// a vendor may replace or clear its fields.
package pid
