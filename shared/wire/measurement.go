package wire

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/eviction"
)

// The maximum numbers of entries in one pod's measurement. An empty entry takes two
// bytes in a message and a hundred in memory: without a limit a message would take many times
// its size. A pod with more than a few hundred containers or volumes does not fit into the
// API server, and a plugin serves a handful of signals.
const (
	maxContainers = 1000
	maxVolumes    = 1000
	maxUsages     = 64
)

func appendMeasurement(b []byte, m *eviction.Measurement) []byte {
	b = appendInt(b, 2, int64(measurementStates.encode(m.State)))
	var at int
	for i := range m.Usage {
		u := &m.Usage[i]
		b, at = beginMessage(b, 3)
		b = appendText(b, 1, string(u.Signal))
		b = appendInt(b, 2, u.Value)
		b = appendInt(b, 3, u.AtMost)
		b = endMessage(b, at)
	}
	b = appendFigure(b, 4, m.WorkingSetBytes)
	b = appendFigure(b, 5, m.Processes)
	b = appendFigure(b, 6, m.EphemeralStorageUsedBytes)
	b = appendInt(b, 7, encodeTime(m.Time))
	for i := range m.Containers {
		c := &m.Containers[i]
		b = appendFigures(b, 8, c.Name, c.WorkingSetBytes, c.RootfsUsedBytes, c.RootfsInodesUsed, c.LogsUsedBytes, c.LogsInodesUsed)
	}
	for i := range m.Volumes {
		v := &m.Volumes[i]
		b = appendFigures(b, 9, v.Name, v.UsedBytes, v.InodesUsed)
	}
	return appendText(b, 10, m.Err)
}

// appendFigures appends a nested message of a name and figures, whose fields begin at 2.
func appendFigures(b []byte, n protowire.Number, name string, figures ...eviction.Figure) []byte {
	b, at := beginMessage(b, n)
	b = appendText(b, 1, name)
	for i, f := range figures {
		b = appendFigure(b, protowire.Number(i+2), f)
	}
	return endMessage(b, at)
}

// appendFigure appends a figure unless it is missing; unlike other fields also if it is 0.
func appendFigure(b []byte, n protowire.Number, f eviction.Figure) []byte {
	if !f.OK {
		return b
	}
	return appendUvarint(appendTag(b, n, protowire.VarintType), uint64(f.Value))
}

func decodeMeasurement(r *reader, m *eviction.Measurement, l *lists) {
	usage := len(l.usage)
	for r.enter(); r.next(); {
		switch r.num {
		case 1:
			m.UID = r.text()
		case 2:
			m.State = measurementStates.read(r, eviction.MeasurementUnknown)
		case 3:
			r.atMost("usages", len(l.usage)-usage, maxUsages)
			decodeSignalUsage(r, grow(&l.usage))
		case 4:
			m.WorkingSetBytes = eviction.Some(r.int())
		case 5:
			m.Processes = eviction.Some(r.int())
		case 6:
			m.EphemeralStorageUsedBytes = eviction.Some(r.int())
		case 7:
			m.Time = decodeTime(r.int())
		case 8:
			r.atMost("containers", len(m.Containers), maxContainers)
			c := grow(&m.Containers)
			r.figures(&c.Name, &c.WorkingSetBytes, &c.RootfsUsedBytes, &c.RootfsInodesUsed, &c.LogsUsedBytes, &c.LogsInodesUsed)
		case 9:
			r.atMost("volumes", len(m.Volumes), maxVolumes)
			v := grow(&m.Volumes)
			r.figures(&v.Name, &v.UsedBytes, &v.InodesUsed)
		case 10:
			m.Err = r.text()
		}
	}
	m.Usage = since(l.usage, usage)
}

// ownStrings copies the strings of a measurement: the strings of all pods share the memory of the
// message, which may be many times as large as the part that is kept.
func ownStrings(m *eviction.Measurement) {
	m.UID, m.Err = strings.Clone(m.UID), strings.Clone(text(m.Err[:min(len(m.Err), maxTextBytes)]))
	for i := range m.Usage {
		m.Usage[i].Signal = eviction.Signal(strings.Clone(string(m.Usage[i].Signal)))
	}
	for i := range m.Containers {
		m.Containers[i].Name = strings.Clone(m.Containers[i].Name)
	}
	for i := range m.Volumes {
		m.Volumes[i].Name = strings.Clone(m.Volumes[i].Name)
	}
}

func decodeSignalUsage(r *reader, u *eviction.SignalUsage) {
	for r.enter(); r.next(); {
		switch r.num {
		case 1:
			u.Signal = eviction.Signal(r.text())
		case 2:
			u.Value = r.int()
		case 3:
			u.AtMost = r.int()
		}
	}
}

// figures reads the current field as a message of a name and figures, whose fields begin at 2.
func (r *reader) figures(name *string, all ...*eviction.Figure) {
	for r.enter(); r.next(); {
		switch {
		case r.num == 1:
			*name = r.text()
		case r.num > 1 && r.num < len(all)+2:
			*all[r.num-2] = eviction.Some(r.int())
		}
	}
}
