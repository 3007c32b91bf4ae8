package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/eviction"
)

// podEncoder encodes pod rows with only those labels and annotations that the receiver wants.
type podEncoder struct {
	labels, annotations []string
}

func (e podEncoder) append(b []byte, p *eviction.Pod) []byte {
	b = appendText(b, 1, p.UID)
	b = appendText(b, 2, p.Namespace)
	b = appendText(b, 3, p.Name)
	b = appendWanted(b, 4, p.Labels, e.labels)
	b = appendWanted(b, 5, p.Annotations, e.annotations)
	b = appendInt(b, 6, int64(p.Priority))
	b = appendText(b, 7, string(p.QoSClass))
	b = appendInt(b, 8, encodeTime(p.StartTime))
	b = appendText(b, 9, p.OwnerKind)
	b = appendInt(b, 10, p.MemoryRequestBytes)
	b = appendInt(b, 11, p.EphemeralStorageRequestBytes)
	var at int
	for i := range p.Volumes {
		v := &p.Volumes[i]
		b, at = beginMessage(b, 12)
		b = appendText(b, 1, v.Name)
		b = appendText(b, 2, v.Kind)
		b = appendText(b, 3, v.Medium)
		b = appendBool(b, 4, v.CountsForRanking)
		b = endMessage(b, at)
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		b, at = beginMessage(b, 13)
		b = appendText(b, 1, c.Name)
		b = appendText(b, 2, c.ID)
		b = endMessage(b, at)
	}
	b = appendBool(b, 14, p.Running)
	return b
}

func appendWanted(b []byte, n protowire.Number, from map[string]string, keys []string) []byte {
	if len(from) == 0 {
		return b
	}
	for _, k := range keys {
		v, ok := from[k]
		if !ok {
			continue
		}
		var at int
		b, at = beginMessage(b, n)
		b = appendText(b, 1, k)
		b = appendText(b, 2, v)
		b = endMessage(b, at)
	}
	return b
}

func decodePod(r *reader, p *eviction.Pod, l *lists) {
	volumes, containers := len(l.volumes), len(l.containers)
	for r.enter(); r.next(); {
		switch r.num {
		case 1:
			p.UID = r.text()
		case 2:
			p.Namespace = r.text()
		case 3:
			p.Name = r.text()
		case 4:
			decodeEntry(r, &p.Labels)
		case 5:
			decodeEntry(r, &p.Annotations)
		case 6:
			p.Priority = int32(r.int())
		case 7:
			p.QoSClass = eviction.QoSClass(r.text())
		case 8:
			p.StartTime = decodeTime(r.int())
		case 9:
			p.OwnerKind = r.text()
		case 10:
			p.MemoryRequestBytes = r.int()
		case 11:
			p.EphemeralStorageRequestBytes = r.int()
		case 12:
			decodeVolume(r, grow(&l.volumes))
		case 13:
			decodeContainer(r, grow(&l.containers))
		case 14:
			p.Running = r.bool()
		}
	}
	p.Volumes, p.Containers = since(l.volumes, volumes), since(l.containers, containers)
}

func decodeVolume(r *reader, v *eviction.Volume) {
	for r.enter(); r.next(); {
		switch r.num {
		case 1:
			v.Name = r.text()
		case 2:
			v.Kind = r.text()
		case 3:
			v.Medium = r.text()
		case 4:
			v.CountsForRanking = r.bool()
		}
	}
}

func decodeContainer(r *reader, c *eviction.Container) {
	for r.enter(); r.next(); {
		switch r.num {
		case 1:
			c.Name = r.text()
		case 2:
			c.ID = r.text()
		}
	}
}

// decodeEntry decodes one entry of a map.
func decodeEntry(r *reader, into *map[string]string) {
	var key, value string
	for r.enter(); r.next(); {
		switch r.num {
		case 1:
			key = r.text()
		case 2:
			value = r.text()
		}
	}
	if *into == nil {
		*into = make(map[string]string)
	}
	(*into)[key] = value
}
