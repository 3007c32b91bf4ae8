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
		b = appendPair(b, 13, p.Containers[i].Name, p.Containers[i].ID)
	}
	b = appendBool(b, 14, p.Running)
	return b
}

func appendWanted(b []byte, n protowire.Number, from map[string]string, keys []string) []byte {
	for _, k := range keys {
		if v, ok := from[k]; ok {
			b = appendPair(b, n, k, v)
		}
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
			c := grow(&l.containers)
			c.Name, c.ID = r.pair()
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

func decodeEntry(r *reader, into *map[string]string) {
	key, value := r.pair()
	if *into == nil {
		*into = make(map[string]string)
	}
	(*into)[key] = value
}
