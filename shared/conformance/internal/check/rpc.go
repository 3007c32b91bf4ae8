package check

import (
	"context"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/eviction"
)

// An RPC is a call of the service.
type RPC struct {
	Name string
	// Text is the field number of a text in the request. In Configure and Watch the field is
	// a nested message instead, as which the text cannot be decoded.
	Text    protowire.Number
	Limit   time.Duration
	Offered func(*eviction.Plugin) bool
	streams bool
}

// RPCs are all calls of the service.
var RPCs = []RPC{
	{"Describe", 1, eviction.DescribeDeadline, func(*eviction.Plugin) bool { return true }, false},
	{"Configure", 1, eviction.ConfigureDeadline, func(p *eviction.Plugin) bool { return p.Configurer != nil }, false},
	{"Observe", 3, eviction.ObserveDeadline, func(p *eviction.Plugin) bool { return p.Observer != nil }, false},
	{"Measure", 4, eviction.MeasureDeadline, func(p *eviction.Plugin) bool { return p.Measurer != nil }, true},
	{"Watch", 1, eviction.DescribeDeadline, func(p *eviction.Plugin) bool { return p.Watcher != nil }, true},
	{"Rank", 2, eviction.RankDeadline, func(p *eviction.Plugin) bool { return p.Ranker != nil }, false},
	{"Reclaim", 2, eviction.MeasureDeadline, func(p *eviction.Plugin) bool { return p.Reclaimer != nil }, true},
}

// Forbidden reports whether the call may reclaim something without permission.
func (r RPC) Forbidden(t *Target) bool { return r.Name == "Reclaim" && !t.MayReclaim }

// Call makes the call with raw bytes and reads a stream to its end.
func (r RPC) Call(ctx context.Context, t *Target, in Message) error {
	if r.streams {
		return t.Stream(ctx, r.Name, in, func([]byte) {})
	}
	_, err := t.Call(ctx, r.Name, in)
	return err
}
