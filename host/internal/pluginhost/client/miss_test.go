package client

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

func TestVerdict(t *testing.T) {
	timeout := fmt.Errorf("observe: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		err  error
		took time.Duration
		want verdict
	}{
		"an answer":                    {nil, time.Millisecond, answered},
		"a refusal is an answer":       {eviction.ErrRefused, time.Millisecond, answered},
		"rubbish is an answer":         {eviction.ErrInvalidReply, time.Millisecond, answered},
		"no answer":                    {timeout, 1001 * time.Millisecond, missed},
		"the caller's shorter one":     {timeout, 10 * time.Millisecond, excused},
		"our own timer was late":       {timeout, 3 * time.Second, excused},
		"an answer that came late":     {nil, 3 * time.Second, answered},
		"the caller gave up":           {context.Canceled, time.Millisecond, excused},
		"a dead socket of a live host": {eviction.ErrUnavailable, time.Millisecond, missed},
	} {
		if got := judge(c.err, c.took, time.Second); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestMissesInARow(t *testing.T) {
	type step struct {
		kind    string
		verdict verdict
		tooMany bool
	}
	for name, steps := range map[string][]step{
		"three of any kind":    {{"observe", missed, false}, {"measure", missed, false}, {"rank", missed, true}},
		"an answer in between": {{"observe", missed, false}, {"observe", missed, false}, {"observe", answered, false}, {"observe", missed, false}},
		"excuses do not count": {{"observe", missed, false}, {"observe", missed, false}, {"observe", excused, false}, {"observe", missed, true}},
		"one kind that always hangs": {
			{"rank", missed, false}, {"observe", answered, false}, {"rank", missed, false}, {"observe", answered, false}, {"rank", missed, true},
		},
	} {
		var m misses
		for n, s := range steps {
			if got := m.add(s.kind, s.verdict); got != s.tooMany {
				t.Errorf("%s, step %d: got %v", name, n, got)
			}
		}
	}
}
