package client

import (
	"context"
	"errors"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// missesToKill is the number of calls in a row without an answer after which a plugin is killed.
const missesToKill = 3

// A verdict says whether one call shows the plugin alive.
type verdict uint8

const (
	// excused says nothing: the caller gave up early, or the host was late itself.
	excused verdict = iota
	answered
	missed
)

// judge judges a call that ended with err after took and had limit to answer.
func judge(err error, took, limit time.Duration) verdict {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		if took < limit || tardy(took, limit) {
			return excused
		}
		return missed
	case errors.Is(err, context.Canceled):
		return excused
	case errors.Is(err, eviction.ErrUnavailable):
		return missed
	default:
		return answered
	}
}

// misses counts calls without an answer, all together and each kind of its own:
// a plugin that always hangs in Rank must not be saved by its observations in
// between.
type misses struct {
	all  int
	kind map[string]int
}

// add counts one call and reports whether that makes too many in a row.
func (m *misses) add(kind string, v verdict) bool {
	if m.kind == nil {
		m.kind = map[string]int{}
	}
	switch v {
	case answered:
		m.all, m.kind[kind] = 0, 0
	case missed:
		m.all++
		m.kind[kind]++
	case excused:
	}
	return m.all >= missesToKill || m.kind[kind] >= missesToKill
}
