package main

import (
	"cmp"
	"path"
)

// summarized are the values of other parts that are in the summary, by evictor, from the rows that match.
var summarized = []struct {
	name, key       string
	part, row, from string
	scale           float64
}{
	{"kubelet's poll", "acts_v1_ms", "kubelet", "unmodified", "p50_ms", 1},
	{"kubelet's notification", "acts_v1_ms", "kubelet", "unmodified, notified", "p50_ms", 1},
	{"earlyoom", "acts_v2_ms", "guest", "earlyoom", "term_ms", 1},
	{"earlyoom", "back_v2_ms", "guest", "earlyoom", "back_ms", 1},
	{"earlyoom", "pss_v2_mib", "guest", "earlyoom", "pss_kib", 1.0 / 1024},
	{"earlyoom", "first_percent", "thrash", "earlyoom at *", "first", 100},
	{"systemd-oomd", "first_percent", "thrash", "oomd at *", "first", 100},
	{"evictd", "acts_v1_ms", "crossing", "StopContainer called", "p50_us", 1.0 / 1000},
	{"evictd", "acts_v2_ms", "guest", "evictd", "term_ms", 1},
	{"evictd", "back_v2_ms", "guest", "evictd", "back_ms", 1},
	{"evictd", "pss_v1_mib", "idle", "all", "pss_mib", 1},
	{"evictd", "pss_v2_mib", "guest", "evictd", "pss_kib", 1.0 / 1024},
	{"evictd", "cpu_v1_percent", "idle", "all", "cpu_percent", 1},
	{"evictd", "first_percent", "thrash", "evictd 100Mi at *", "first", 100},
	{"evictd inside a kubelet", "acts_v1_ms", "kubelet", "evictd inside, notified", "p50_ms", 1},
}

// summary has what the parts say of a crossing and of its price, by evictor.
func summary(parts []*part) *part {
	s := &part{
		Title: "From a crossing to memory, and its price",
		Columns: []column{
			{"acts_v1_ms", "acts, v1, ms", 1},
			{"acts_v2_ms", "acts, v2, ms", 0},
			{"back_v1_ms", "memory back, v1, ms", 0},
			{"back_v2_ms", "memory back, v2, ms", 0},
			{"pss_v1_mib", "at rest, v1, PSS MiB", 1},
			{"pss_v2_mib", "at rest, v2, PSS MiB", 1},
			{"cpu_v1_percent", "at rest, v1, CPU %", 3},
			{"first_percent", "before the OOM killer, v2, %", 0},
		},
		Notes: []string{
			"v1 and v2 are cgroup versions; a dash is not measured, or does not exist, as the kubelet's notification with v2. Times are from the crossing.",
			"Acts: SIGTERM reaches the process that grows; with evictd and v1 the runtime, a fake that answers at once, is called to stop the container.",
			"Before the OOM killer: of the runs on the node that thrashes below, evictd with 100Mi. Figures of v2 are of a slow guest of one CPU.",
		},
	}
	for _, v := range summarized {
		sum, times := 0.0, 0.0
		for _, p := range parts {
			for _, r := range p.Rows {
				if matches, _ := path.Match(v.row, r.Name); matches && p.name == v.part {
					sum, times = sum+r.Values[v.from]*v.scale, times+cmp.Or(r.Values["runs"], 1)
				}
			}
		}
		if s.values(v.name, 0) == nil {
			s.Rows = append(s.Rows, row{Name: v.name, Values: map[string]float64{}})
		}
		if times > 0 && (sum > 0 || v.key == "first_percent") {
			s.values(v.name, 0)[v.key] = sum / times
		}
	}
	return s
}
