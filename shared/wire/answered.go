package wire

import (
	"slices"
	"sync"

	"github.com/evictd/evictd/shared/eviction"
)

// answered collects the answers of a Measure call as the candidates of the Rank call
// combined with it.
type answered struct {
	mu    sync.Mutex
	rows  []eviction.Candidate
	index index
	// open is the number of rows without an answer.
	open   int
	closed bool
	usage  []eviction.SignalUsage
}

func newAnswered(pods []eviction.Pod) *answered {
	c := &answered{
		rows: make([]eviction.Candidate, len(pods)), index: index{pods: pods}, open: len(pods),
		usage: make([]eviction.SignalUsage, 0, len(pods)),
	}
	for i := range pods {
		c.rows[i].Pod = pods[i]
	}
	return c
}

// add stores a copy of an answer. Only the first answer for a pod counts.
func (c *answered) add(m eviction.Measurement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, asked := c.index.find(m.UID)
	if c.closed || !asked || c.rows[at].Measurement.State != eviction.MeasurementUnknown || m.State == eviction.MeasurementUnknown {
		return
	}
	n := len(c.usage)
	c.usage = append(c.usage, m.Usage...)
	m.Usage = since(c.usage, n)
	m.Containers, m.Volumes = slices.Clone(m.Containers), slices.Clone(m.Volumes)
	c.rows[at].Measurement = m
	c.open--
}

// close returns the rows and whether all of them have an answer. Later calls of add are ignored.
func (c *answered) close() (rows []eviction.Candidate, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.rows, c.open == 0
}
