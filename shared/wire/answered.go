package wire

import (
	"slices"
	"sync"

	"github.com/evictd/evictd/shared/eviction"
)

// answered collects the answers of a Measure into what the Rank that goes with
// it gets.
type answered struct {
	mu    sync.Mutex
	rows  []eviction.Candidate
	index index
	// open counts the rows that wait for an answer.
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

// add takes an answer, of which it keeps copies. The first one of a pod counts.
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

// close returns the rows, and whether all of them have an answer. What is added
// later is dropped.
func (c *answered) close() (rows []eviction.Candidate, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.rows, c.open == 0
}
