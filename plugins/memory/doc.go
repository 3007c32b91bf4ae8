// Package memory is the plugin for memory.available and
// allocatableMemory.available: it observes them, measures pods, ranks by the
// kubelet's rule and watches for crossings. Its figures come from the memory
// cgroups, of version 1 and 2, by the formulas of cAdvisor and the kubelet, or
// from the kubelet's stats summary where the host serves one.
//
// It can be served as it is (plugins/builtin) or taken apart: the plugin is a value,
// and a vendor may replace or clear a field of it. It does not decide what is
// under pressure; the thresholds that it watches only tell it when to call.
package memory
