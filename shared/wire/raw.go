package wire

import (
	"math"

	"github.com/evictd/evictd/shared/eviction"
)

// EncodePod is a pod as in requests, for those who add to it what no host sends.
func EncodePod(p *eviction.Pod, labels, annotations []string) []byte {
	return podEncoder{labels, annotations}.append(nil, p)
}

// EncodeMeasurement is the measurement of a candidate as in requests.
func EncodeMeasurement(m *eviction.Measurement) []byte { return appendMeasurement(nil, m) }

// DecodeMeasurements reads an answer to Measure that may be of any number of pods.
func DecodeMeasurements(raw []byte) ([]eviction.Measurement, error) {
	m := measurements{atMost: math.MaxInt, unbounded: true}
	if err := m.decode(string(raw)); err != nil {
		return nil, err
	}
	return m.list, nil
}
