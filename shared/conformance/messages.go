package conformance

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/eviction"
)

// podMessage writes a pod as the host does, for requests that need raw bytes.
func podMessage(p *eviction.Pod) message {
	m := message{}.text(1, p.UID).text(2, p.Namespace).text(3, p.Name)
	m = m.entries(4, p.Labels).entries(5, p.Annotations)
	m = m.number(6, int64(p.Priority)).text(7, string(p.QoSClass))
	if !p.StartTime.IsZero() {
		m = m.number(8, p.StartTime.UnixNano())
	}
	m = m.text(9, p.OwnerKind).number(10, p.MemoryRequestBytes).number(11, p.EphemeralStorageRequestBytes)
	for _, v := range p.Volumes {
		counts := int64(0)
		if v.CountsForRanking {
			counts = 1
		}
		m = m.bytes(12, message{}.text(1, v.Name).text(2, v.Kind).text(3, v.Medium).number(4, counts))
	}
	for _, c := range p.Containers {
		m = m.bytes(13, message{}.text(1, c.Name).text(2, c.ID))
	}
	return m
}

func (m message) entries(num protowire.Number, list map[string]string) message {
	for _, key := range slices.Sorted(maps.Keys(list)) {
		m = m.bytes(num, message{}.text(1, key).text(2, list[key]))
	}
	return m
}

// candidateMessage writes a candidate with the measurement state given.
func candidateMessage(c *eviction.Candidate, state int64) message {
	m := message{}.number(2, state)
	for _, u := range c.Measurement.Usage {
		m = m.bytes(3, message{}.text(1, string(u.Signal)).number(2, u.Value))
	}
	m = m.number(4, c.Measurement.WorkingSetBytes.Value).number(5, c.Measurement.Processes.Value).number(6, c.Measurement.EphemeralStorageUsedBytes.Value)
	return message{}.bytes(1, podMessage(&c.Pod).newer()).bytes(2, m.newer()).newer()
}

// parseMeasurements reads a MeasureResponse, and whether it has a ranking.
func parseMeasurements(raw []byte) (rows []eviction.Measurement, ranked bool, err error) {
	got, err := fields(raw)
	if err != nil {
		return nil, false, err
	}
	for _, f := range got {
		switch f.num {
		case 1:
			m, err := parseMeasurement(f.bytes)
			if err != nil {
				return nil, false, err
			}
			rows = append(rows, m)
		case 2:
			ranked = true
		default:
		}
	}
	return rows, ranked, nil
}

func parseMeasurement(raw []byte) (eviction.Measurement, error) {
	var m eviction.Measurement
	got, err := fields(raw)
	for _, f := range got {
		figure := eviction.Some(int64(f.value))
		switch f.num {
		case 1:
			m.UID = string(f.bytes)
		case 2:
			m.State = measurementState(f.value)
		case 3:
			usage, bad := fields(f.bytes)
			if bad != nil {
				return m, bad
			}
			m.Usage = append(m.Usage, parseUsage(usage))
		case 4:
			m.WorkingSetBytes = figure
		case 5:
			m.Processes = figure
		case 6:
			m.EphemeralStorageUsedBytes = figure
		case 7:
			m.Time = time.Unix(0, int64(f.value))
		case 8:
			m.Containers = append(m.Containers, eviction.ContainerMeasurement{Name: nameOf(f.bytes)})
		case 9:
			m.Volumes = append(m.Volumes, eviction.VolumeMeasurement{Name: nameOf(f.bytes)})
		case 10:
			m.Err = string(f.bytes)
		default:
		}
	}
	return m, err
}

func measurementState(v uint64) eviction.MeasurementState {
	switch v {
	case 2:
		return eviction.Measured
	case 3:
		return eviction.NoStats
	default:
		return eviction.MeasurementUnknown
	}
}

func parseUsage(got []field) eviction.SignalUsage {
	var u eviction.SignalUsage
	for _, f := range got {
		switch f.num {
		case 1:
			u.Signal = eviction.Signal(f.bytes)
		case 2:
			u.Value = int64(f.value)
		default:
		}
	}
	return u
}

// nameOf returns the first field of a container or volume.
func nameOf(raw []byte) string {
	got, _ := fields(raw) // a message that was cut off has no name
	for _, f := range got {
		if f.num == 1 {
			return string(f.bytes)
		}
	}
	return ""
}
