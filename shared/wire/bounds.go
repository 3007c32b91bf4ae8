package wire

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/evictd/evictd/shared/eviction"
)

// A bound limits how often a field occurs in a message, and the size of each occurrence. An empty
// entry takes two bytes in a message and hundreds in memory: without bounds, a message would take
// many times its size.
type bound struct {
	field int
	what  string
	most  int // occurrences, 0 for no bound
	bytes int // of each, 0 for no bound
	in    []bound
}

// The maximum sizes of names and of texts for people. A description, which is read once, is refused
// if it exceeds them; in replies that recur, the host truncates the texts.
const (
	maxNameBytes = 253
	maxKeyBytes  = 253 + 1 + 63 // of a label or annotation
	maxTextBytes = 1 << 10
	maxListBytes = 64 // of enum values
)

// maxSignals is far more than any plugin serves; the kubelet has nine signals.
const maxSignals = 64

var describeBounds = []bound{
	{field: 1, what: "name", bytes: maxNameBytes},
	{field: 2, what: "version", bytes: maxNameBytes},
	{field: 3, what: "capabilities", most: maxListBytes, bytes: maxListBytes},
	{field: 6, what: "signals", most: maxSignals, in: []bound{
		{field: 1, what: "signal", bytes: maxTextBytes}, // for a message that shows it
		{field: 2, what: "capabilities", most: maxListBytes, bytes: maxListBytes},
		{field: 3, what: "definition", bytes: 4 * maxTextBytes},
		{field: 4, what: "reclaimSteps", most: 32, in: []bound{
			{field: 1, what: "name", bytes: maxNameBytes},
			{field: 2, what: "layouts", most: maxListBytes, bytes: maxListBytes},
			{field: 3, what: "enabledBy", bytes: maxNameBytes},
		}},
	}},
	{field: 7, what: "wantLabels", most: 64, bytes: maxKeyBytes},
	{field: 8, what: "wantAnnotations", most: 64, bytes: maxKeyBytes},
	{field: 10, what: "description", bytes: maxTextBytes},
	{field: 11, what: "vendor", bytes: maxTextBytes},
	{field: 12, what: "licence", bytes: maxNameBytes},
}

var configureBounds = []bound{
	{field: 1, what: "problems", most: maxProblems, in: []bound{
		{field: 1, what: "path", most: maxSteps, bytes: maxKeyBytes},
		{field: 2, what: "text", bytes: maxTextBytes},
	}},
}

var metricsBounds = []bound{
	{field: 1, what: "metrics", most: eviction.MaxSamples, in: []bound{
		{field: 1, what: "name", bytes: maxNameBytes},
		{field: 2, what: "help", bytes: maxTextBytes},
		{field: 4, what: "samples", most: eviction.MaxSamples, in: []bound{{field: 1, what: "labels", most: 8}}},
	}},
}

var observeBounds = []bound{
	{field: 1, what: "observations", most: maxSignals, in: []bound{
		{field: 7, what: "components", most: 64},
	}},
}

// check returns an error for the first field of r's message that is out of bounds.
func check(r reader, bounds []bound) error {
	var counts [16]int
	for r.next() {
		for i := range bounds {
			b := &bounds[i]
			if b.field != r.num {
				continue
			}
			counts[i]++
			if err := b.check(counts[i], r.bytes); err != nil {
				return err
			}
		}
	}
	return r.err
}

func (b *bound) check(n int, content string) error {
	if b.most > 0 && n > b.most {
		return fmt.Errorf("%s: more than %d entries", b.what, b.most)
	}
	if b.bytes > 0 && len(content) > b.bytes {
		return fmt.Errorf("%s: %d bytes, want at most %d", b.what, len(content), b.bytes)
	}
	if b.in == nil {
		return nil
	}
	if err := check(reader{rest: content}, b.in); err != nil {
		return fmt.Errorf("%s[%d].%w", b.what, n-1, err)
	}
	return nil
}

// bounded is a generated message that is decoded only if it is within bounds.
type bounded struct {
	proto.Message
	bounds []bound
}

func (m bounded) decode(s string) error {
	if err := check(reader{rest: s}, m.bounds); err != nil {
		return err
	}
	return proto.Unmarshal([]byte(s), m.Message)
}
