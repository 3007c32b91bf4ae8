// Package memory is the plugin for memory.available and allocatableMemory.available: it observes
// them, measures pods, ranks by the kubelet's rule and watches for crossings. Its figures come from
// the memory cgroups, of version 1 and 2, by the formulas of cAdvisor and the kubelet, or from the
// kubelet's stats summary if the host serves one.
//
// It can be served as it is (plugins/builtin) or be modified: the plugin is a value,
// and a vendor may replace or clear its fields. It does not decide about pressure;
// it uses the thresholds only to know when to wake the host.
package memory
