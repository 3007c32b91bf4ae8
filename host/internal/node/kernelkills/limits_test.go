package kernelkills

import (
	"slices"
	"testing"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/nodefs"
)

// What version 1 does not count, a counter that falls and a cgroup that is gone leave a kill unknown.
func TestWhatCountersDoNotShowIsUnknown(t *testing.T) {
	const kubepods, pod, container = "/kubepods", "/kubepods/podp", "/kubepods/podp/c"
	v1 := func(kills, fails, limit int64) nodefs.OOMCounts {
		return nodefs.OOMCounts{OOMs: -1, OOMsBelow: -1, Groups: -1, Kills: kills, Fails: fails, LimitBytes: limit}
	}
	kill := func(scope string, limit int64) []Kill {
		return []Kill{{PodUID: "p", ContainerID: "c", Scope: scope, Processes: 1, LimitBytes: limit}}
	}
	unknown := []Kill{{Scope: decision.ScopeUnknown, Processes: 1}}
	for name, c := range map[string]struct {
		version nodefs.Version
		// now has the counters of all pods, of the pod and of its container, former those before, nil for none.
		now, former [3]*nodefs.OOMCounts
		calm        bool
		want        []Kill
	}{
		"v1, a limit of the container":      {nodefs.V1, of(v1(0, 0, 9), v1(0, 0, 0), v1(1, 4, 5)), of(v1(0, 0, 9), v1(0, 0, 0), v1(0, 1, 5)), true, kill(decision.ScopeContainer, 5)},
		"v1, on a node without memory":      {nodefs.V1, of(v1(0, 0, 9), v1(0, 0, 0), v1(1, 4, 5)), of(v1(0, 0, 9), v1(0, 0, 0), v1(0, 1, 5)), false, kill(decision.ScopeUnknown, 0)},
		"v1, pod and container":             {nodefs.V1, of(v1(0, 0, 9), v1(0, 3, 6), v1(1, 4, 5)), of(v1(0, 0, 9), v1(0, 0, 6), v1(0, 1, 5)), true, kill(decision.ScopePod, 6)},
		"v1, container and all pods":        {nodefs.V1, of(v1(0, 7, 9), v1(0, 0, 0), v1(1, 4, 5)), of(v1(0, 0, 9), v1(0, 0, 0), v1(0, 1, 5)), true, kill(decision.ScopeUnknown, 0)},
		"v1, memory and swap":               {nodefs.V1, of(v1(0, 0, 9), v1(0, 0, 0), nodefs.OOMCounts{OOMs: -1, OOMsBelow: -1, Groups: -1, Kills: 1, LimitBytes: 5, Reached: true}), of(v1(0, 0, 9), v1(0, 0, 0), v1(0, 0, 5)), true, kill(decision.ScopeContainer, 5)},
		"v1, no limit reached":              {nodefs.V1, of(v1(0, 0, 9), v1(0, 0, 0), v1(1, 4, 5)), of(v1(0, 0, 9), v1(0, 0, 0), v1(0, 4, 5)), false, kill(decision.ScopeNode, 0)},
		"v1, no limit reached, calm":        {nodefs.V1, of(v1(0, 0, 9), v1(0, 0, 0), v1(1, 4, 5)), of(v1(0, 0, 9), v1(0, 0, 0), v1(0, 4, 5)), true, kill(decision.ScopeUnknown, 0)},
		"v1, the container is gone":         {nodefs.V1, of(v1(0, 0, 9), v1(0, 0, 0)), of(v1(0, 0, 9), v1(0, 0, 0), v1(0, 4, 5)), true, unknown},
		"v1, made again with a lower count": {nodefs.V1, of(v1(0, 0, 9), v1(0, 0, 0), v1(2, 4, 5)), of(v1(0, 0, 9), v1(0, 0, 0), v1(3, 4, 5)), true, unknown},
		"v1, a new container":               {nodefs.V1, of(v1(0, 0, 9), v1(0, 0, 0), v1(1, 4, 5)), of(v1(0, 0, 9), v1(0, 0, 0)), true, kill(decision.ScopeContainer, 5)},
		"v2 before 5.2": {
			nodefs.V2, of(nodefs.OOMCounts{OOMs: -1, Kills: 1, OOMsBelow: 0}, nodefs.OOMCounts{OOMs: -1, Kills: 1}, nodefs.OOMCounts{OOMs: -1, Kills: 1}),
			of(nodefs.OOMCounts{OOMs: -1}, nodefs.OOMCounts{OOMs: -1}, nodefs.OOMCounts{OOMs: -1}), true, kill(decision.ScopeUnknown, 0),
		},
		"outside of pods": {nodefs.V2, of(nodefs.OOMCounts{}, nodefs.OOMCounts{}, nodefs.OOMCounts{}), of(nodefs.OOMCounts{}, nodefs.OOMCounts{}, nodefs.OOMCounts{}), true, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			all := []nodefs.OOMCgroup{{Cgroup: kubepods}, {Cgroup: pod, Parent: kubepods, PodUID: "p"}, {Cgroup: container, Parent: pod, PodUID: "p", ContainerID: "c"}}
			var now []nodefs.OOMCgroup
			former := map[string]nodefs.OOMCounts{}
			for i, cgroup := range all {
				if c.former[i] != nil {
					former[cgroup.Cgroup] = *c.former[i]
				}
				if c.now[i] != nil {
					cgroup.OOMCounts = *c.now[i]
					now = append(now, cgroup)
				}
			}
			if got := found(now, former, 1, c.version, c.calm); !slices.Equal(got, c.want) {
				t.Errorf("found %+v, want %+v", got, c.want)
			}
		})
	}
}

func of(all ...nodefs.OOMCounts) (out [3]*nodefs.OOMCounts) {
	for i := range all {
		out[i] = &all[i]
	}
	return out
}
