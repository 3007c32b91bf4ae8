package client

import (
	"context"
	"errors"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// missesToKill is the number of consecutive unanswered calls after which a plugin is killed.
const missesToKill = 3

// A verdict says whether a call shows that the plugin is alive.
type verdict uint8

const (
	// excused is neutral: the caller gave up early, or the host itself was late.
	excused verdict = iota
	answered
	missed
)

// judge classifies a call that ended with err after took, with a time limit of limit, of which a
// caller's own deadline may have taken a little.
func judge(err error, took, limit time.Duration) verdict {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		if took < limit-limit/promptShare || tardy(took, limit) {
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

// misses counts unanswered calls, in total and per kind: a plugin that always hangs in Rank must
// not be saved by its observations in between.
type misses struct {
	all  int
	kind map[string]int
}

// add counts one call and reports whether there were too many consecutive misses.
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
