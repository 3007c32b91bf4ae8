package summary

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

func decode(t *testing.T, text string) *Summary {
	t.Helper()
	s, err := Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const wholeNode = `{"node":{"nodeName":"n",
	"memory":{"time":"2026-03-01T12:00:01Z","availableBytes":700,"workingSetBytes":300},
	"systemContainers":[
		{"name":"kubelet","memory":{"availableBytes":1,"workingSetBytes":1}},
		{"name":"pods","memory":{"time":"2026-03-01T12:00:02Z","availableBytes":500,"workingSetBytes":100}},
		{"name":"pods","memory":{"availableBytes":2,"workingSetBytes":2}}],
	"fs":{"time":"2026-03-01T12:00:03Z","availableBytes":10,"capacityBytes":100,"inodesFree":11,"inodes":101},
	"runtime":{
		"imageFs":{"time":"2026-03-01T12:00:04Z","availableBytes":20,"capacityBytes":200,"inodesFree":22,"inodes":202},
		"containerFs":{"time":"2026-03-01T12:00:05Z","availableBytes":30,"capacityBytes":300,"inodesFree":33,"inodes":303}},
	"rlimit":{"time":"2026-03-01T12:00:06Z","maxpid":1000,"curproc":1200}}}`

func TestObserve(t *testing.T) {
	second := func(n int) time.Time { return time.Date(2026, 3, 1, 12, 0, n, 0, time.UTC) }
	one := func(name string, v int64) []eviction.Component { return []eviction.Component{{Name: name, Value: v}} }
	s := decode(t, wholeNode)
	for _, want := range []eviction.Observation{
		{Signal: eviction.MemoryAvailable, Available: 700, Capacity: 1000, Time: second(1), Components: one("working_set", 300)},
		{Signal: eviction.AllocatableMemoryAvailable, Available: 500, Capacity: 600, Time: second(2), Components: one("working_set", 100)},
		{Signal: eviction.NodeFsAvailable, Available: 10, Capacity: 100, Time: second(3)},
		{Signal: eviction.NodeFsInodesFree, Available: 11, Capacity: 101, Time: second(3)},
		{Signal: eviction.ImageFsAvailable, Available: 20, Capacity: 200, Time: second(4)},
		{Signal: eviction.ImageFsInodesFree, Available: 22, Capacity: 202, Time: second(4)},
		{Signal: eviction.ContainerFsAvailable, Available: 30, Capacity: 300, Time: second(5)},
		{Signal: eviction.ContainerFsInodesFree, Available: 33, Capacity: 303, Time: second(5)},
		{Signal: eviction.PIDAvailable, Available: -200, Capacity: 1000, Time: second(6), Components: one("running", 1200)},
	} {
		want.State = eviction.Observed
		if diff := cmp.Diff(want, s.Observe(want.Signal)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Signal, diff)
		}
	}
}

// A figure that is not there is the source saying so: the threshold is not met.
func TestMissingFiguresAreAbsent(t *testing.T) {
	for name, c := range map[string]struct {
		node   string
		absent []eviction.Signal
	}{
		"nothing":          {``, eviction.BuiltinSignals()},
		"no available":     {`"memory":{"workingSetBytes":1}`, []eviction.Signal{eviction.MemoryAvailable}},
		"no working set":   {`"memory":{"availableBytes":1}`, []eviction.Signal{eviction.MemoryAvailable}},
		"no pods":          {`"systemContainers":[{"name":"misc","memory":{"availableBytes":1,"workingSetBytes":1}}]`, []eviction.Signal{eviction.AllocatableMemoryAvailable}},
		"first pods empty": {`"systemContainers":[{"name":"pods"},{"name":"pods","memory":{"availableBytes":1,"workingSetBytes":1}}]`, []eviction.Signal{eviction.AllocatableMemoryAvailable}},
		"half filesystems": {
			`"fs":{"availableBytes":1,"inodes":1},"runtime":{"imageFs":{"capacityBytes":1,"inodesFree":1},"containerFs":null}`,
			[]eviction.Signal{
				eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.ImageFsAvailable,
				eviction.ImageFsInodesFree, eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree,
			},
		},
		"no maximum": {`"rlimit":{"curproc":1}`, []eviction.Signal{eviction.PIDAvailable}},
		"no count":   {`"rlimit":{"maxpid":1}`, []eviction.Signal{eviction.PIDAvailable}},
	} {
		t.Run(name, func(t *testing.T) {
			s := decode(t, `{"node":{`+c.node+`}}`)
			for _, signal := range c.absent {
				want := eviction.Observation{Signal: signal, State: eviction.Absent}
				if diff := cmp.Diff(want, s.Observe(signal)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", signal, diff)
				}
			}
		})
	}
}

func TestHugeFiguresTurnNegativeAsInTheKubelet(t *testing.T) {
	s := decode(t, `{"node":{"memory":{"availableBytes":18446744073709551615,"workingSetBytes":2},
		"fs":{"availableBytes":9223372036854775808,"capacityBytes":9223372036854775807}}}`)
	if o := s.Observe(eviction.MemoryAvailable); o.Available != -1 || o.Capacity != 1 {
		t.Errorf("memory %+v, want -1 of 1", o)
	}
	if o := s.Observe(eviction.NodeFsAvailable); o.Available != math.MinInt64 || o.Capacity != math.MaxInt64 {
		t.Errorf("nodefs %+v, want the ends of int64", o)
	}
}

func TestAnOwnSignalIsUnknown(t *testing.T) {
	o := decode(t, wholeNode).Observe("acme.example/nvme.spare")
	if o.State != eviction.Unknown || o.Err == "" {
		t.Errorf("got %+v, want unknown with a reason", o)
	}
}
