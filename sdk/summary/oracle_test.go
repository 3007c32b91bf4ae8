package summary

import (
	stdjson "encoding/json"
	"strings"
	"time"

	"sigs.k8s.io/json"

	"github.com/evictd/evictd/shared/eviction"
)

// oracle is the same part of a summary in the shape of the kubelet's types, for
// the decoder that the kubelet's clients use.
type oracle struct {
	Node *struct {
		NodeName         string        `json:"nodeName"`
		Memory           *oracleMemory `json:"memory"`
		SystemContainers []struct {
			Name   string        `json:"name"`
			Memory *oracleMemory `json:"memory"`
		} `json:"systemContainers"`
		Fs      oracleFs `json:"fs"`
		Runtime struct {
			ImageFs     oracleFs `json:"imageFs"`
			ContainerFs oracleFs `json:"containerFs"`
		} `json:"runtime"`
		Rlimit struct {
			Time    oracleTime `json:"time"`
			MaxPID  *int64     `json:"maxpid"`
			CurProc *int64     `json:"curproc"`
		} `json:"rlimit"`
	} `json:"node"`
	Pods []struct {
		PodRef struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
			UID       string `json:"uid"`
		} `json:"podRef"`
		Memory           *oracleMemory `json:"memory"`
		EphemeralStorage struct {
			Time       oracleTime `json:"time"`
			UsedBytes  *uint64    `json:"usedBytes"`
			InodesUsed *uint64    `json:"inodesUsed"`
		} `json:"ephemeral-storage"`
		ProcessStats struct {
			ProcessCount *uint64 `json:"process_count"`
		} `json:"process_stats"`
		Containers []struct {
			Name   string `json:"name"`
			Memory struct {
				WorkingSetBytes *uint64 `json:"workingSetBytes"`
			} `json:"memory"`
			Rootfs oracleUse `json:"rootfs"`
			Logs   oracleUse `json:"logs"`
		} `json:"containers"`
		Volume []struct {
			Name       string  `json:"name"`
			UsedBytes  *uint64 `json:"usedBytes"`
			InodesUsed *uint64 `json:"inodesUsed"`
		} `json:"volume"`
	} `json:"pods"`
}

type oracleMemory struct {
	Time            oracleTime `json:"time"`
	AvailableBytes  *uint64    `json:"availableBytes"`
	WorkingSetBytes *uint64    `json:"workingSetBytes"`
}

type oracleFs struct {
	Time           oracleTime `json:"time"`
	AvailableBytes *uint64    `json:"availableBytes"`
	CapacityBytes  *uint64    `json:"capacityBytes"`
	InodesFree     *uint64    `json:"inodesFree"`
	Inodes         *uint64    `json:"inodes"`
}

type oracleUse struct {
	UsedBytes  *uint64 `json:"usedBytes"`
	InodesUsed *uint64 `json:"inodesUsed"`
}

// oracleTime reads times as metav1.Time does.
type oracleTime struct{ time.Time }

func (t *oracleTime) UnmarshalJSON(b []byte) (err error) {
	var text *string
	if err := stdjson.Unmarshal(b, &text); err != nil || text == nil {
		t.Time = time.Time{}
		return err
	}
	t.Time, err = time.Parse(time.RFC3339, *text)
	return err
}

// decodeOracle returns what Decode should, and whether the input has something
// in it that nobody promises anything for: a name given twice.
func decodeOracle(data []byte) (s *Summary, twice bool, err error) {
	var o oracle
	strict, err := json.UnmarshalStrict(data, &o)
	for _, e := range strict {
		twice = twice || strings.Contains(e.Error(), "duplicate field")
	}
	if err != nil || o.Node == nil {
		return nil, twice, err
	}
	return o.summary(), twice, nil
}

func (o *oracle) summary() *Summary {
	n := o.Node
	s := &Summary{Node: Node{
		Name: n.NodeName, Memory: n.Memory.memory(), Fs: n.Fs.filesystem(),
		ImageFs: n.Runtime.ImageFs.filesystem(), ContainerFs: n.Runtime.ContainerFs.filesystem(),
		Rlimit: Rlimit{Time: n.Rlimit.Time.Time, MaxPID: signedFigure(n.Rlimit.MaxPID), Running: signedFigure(n.Rlimit.CurProc)},
	}}
	for _, c := range n.SystemContainers {
		s.Node.SystemContainers = append(s.Node.SystemContainers, SystemContainer{Name: c.Name, Memory: c.Memory.memory()})
	}
	for _, p := range o.Pods {
		pod := Pod{
			UID: p.PodRef.UID, Namespace: p.PodRef.Namespace, Name: p.PodRef.Name, Memory: p.Memory.memory(),
			EphemeralStorage:     Use{UsedBytes: figure(p.EphemeralStorage.UsedBytes), InodesUsed: figure(p.EphemeralStorage.InodesUsed)},
			EphemeralStorageTime: p.EphemeralStorage.Time.Time,
			Processes:            figure(p.ProcessStats.ProcessCount),
		}
		for _, c := range p.Containers {
			pod.Containers = append(pod.Containers, Container{Name: c.Name, WorkingSetBytes: figure(c.Memory.WorkingSetBytes), Rootfs: c.Rootfs.use(), Logs: c.Logs.use()})
		}
		for _, v := range p.Volume {
			pod.Volumes = append(pod.Volumes, Volume{Name: v.Name, Use: Use{UsedBytes: figure(v.UsedBytes), InodesUsed: figure(v.InodesUsed)}})
		}
		s.Pods = append(s.Pods, pod)
	}
	return s
}

func (m *oracleMemory) memory() Memory {
	if m == nil {
		return Memory{}
	}
	return Memory{Present: true, Time: m.Time.Time, AvailableBytes: figure(m.AvailableBytes), WorkingSetBytes: figure(m.WorkingSetBytes)}
}

func (f *oracleFs) filesystem() Filesystem {
	return Filesystem{
		Time: f.Time.Time, AvailableBytes: figure(f.AvailableBytes), CapacityBytes: figure(f.CapacityBytes),
		InodesFree: figure(f.InodesFree), Inodes: figure(f.Inodes),
	}
}

func (u *oracleUse) use() Use {
	return Use{UsedBytes: figure(u.UsedBytes), InodesUsed: figure(u.InodesUsed)}
}

func figure(v *uint64) eviction.Figure {
	if v == nil {
		return eviction.Figure{}
	}
	return eviction.Some(int64(*v))
}

func signedFigure(v *int64) eviction.Figure {
	if v == nil {
		return eviction.Figure{}
	}
	return eviction.Some(*v)
}
