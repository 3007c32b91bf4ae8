package wire

import (
	"fmt"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// measureRequest is a MeasureRequest that encodes and decodes itself.
type measureRequest struct {
	eviction.MeasureRequest
	pods podEncoder
}

func (m *measureRequest) encode(b []byte) []byte {
	b = slices.Grow(b, 256+len(m.Pods)*256)
	b = appendInt(b, 1, int64(m.Pass))
	b = appendInt(b, 2, int64(views.encode(m.View)))
	b = appendInt(b, 3, int64(details.encode(m.Detail)))
	var at int
	for _, s := range m.Signals {
		b, at = beginMessage(b, 4) // same format as a repeated string
		b = append(b, text(string(s))...)
		b = endMessage(b, at)
	}
	for i := range m.Pods {
		b, at = beginMessage(b, 5)
		b = m.pods.append(b, &m.Pods[i])
		b = endMessage(b, at)
	}
	return b
}

func (m *measureRequest) decode(s string) error {
	r := reader{rest: s}
	m.View, m.Detail = eviction.ViewBefore, eviction.DetailPod
	var l lists
	m.Pods = make([]eviction.Pod, 0, r.count(5))
	for r.next() {
		switch r.num {
		case 1:
			m.Pass = r.value
		case 2:
			m.View = views.read(&r, eviction.ViewBefore)
		case 3:
			m.Detail = details.read(&r, eviction.DetailPod)
		case 4:
			m.Signals = append(m.Signals, eviction.Signal(r.text()))
		case 5:
			decodePod(&r, grow(&m.Pods), &l)
			if len(m.Pods) == 1 {
				l.expect(cap(m.Pods) - 1)
			}
		}
	}
	return r.err
}

// measurementChunk is a MeasureResponse that is encoded as measurements arrive.
type measurementChunk []byte

func (c measurementChunk) with(m *eviction.Measurement) measurementChunk {
	b, at := beginMessage(c, 1)
	return endMessage(appendMeasurement(appendText(b, 1, m.UID), m), at)
}

// measurements is a MeasureResponse that decodes itself.
type measurements struct {
	list []eviction.Measurement
	// unbounded allows more measurements in a message than a host accepts.
	unbounded bool
}

func (m *measurements) decode(s string) error {
	r := reader{rest: s}
	n := r.count(1)
	if n > chunk && !m.unbounded {
		return fmt.Errorf("%d measurements in one message, want at most %d", n, chunk)
	}
	var l lists
	m.list = make([]eviction.Measurement, 0, n)
	for r.next() {
		if r.num != 1 {
			continue
		}
		decodeMeasurement(&r, grow(&m.list), &l)
		if len(m.list) == 1 {
			l.expect(n - 1)
		}
	}
	if len(s) > usualBytes*(n+1) {
		for i := range m.list {
			ownStrings(&m.list[i])
		}
	}
	return r.err
}

// usualBytes is more than the figures of one pod take in a message.
const usualBytes = 16 << 10
