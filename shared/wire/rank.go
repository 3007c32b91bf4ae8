package wire

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/eviction"
)

// rankRequest is a RankRequest that encodes and decodes itself.
type rankRequest struct {
	eviction.RankRequest
	pods podEncoder
}

func (q *rankRequest) encode(b []byte) []byte {
	b = slices.Grow(b, 256+len(q.Candidates)*384)
	b = appendRank(b, &q.RankRequest)
	var at, inner int
	for i := range q.Candidates {
		c := &q.Candidates[i]
		b, at = beginMessage(b, 9)
		b, inner = beginMessage(b, 1)
		b = endMessage(q.pods.append(b, &c.Pod), inner)
		b, inner = beginMessage(b, 2)
		b = endMessage(appendMeasurement(b, &c.Measurement), inner)
		b = endMessage(b, at)
	}
	return b
}

// appendRank appends a request without its candidates.
func appendRank(b []byte, q *eviction.RankRequest) []byte {
	b = appendInt(b, 1, int64(q.Pass))
	b = appendText(b, 2, string(q.Signal))
	b = appendText(b, 3, string(q.Unit))
	b, at := beginMessage(b, 4)
	b = endMessage(appendThreshold(b, q.Threshold), at)
	b = appendInt(b, 5, q.Available)
	b = appendInt(b, 6, q.Capacity)
	b = appendInt(b, 7, q.Shortfall)
	return appendBool(b, 8, q.Hard)
}

func (q *rankRequest) decode(s string) error {
	return decodeRank(reader{rest: s}, &q.RankRequest)
}

func decodeRank(r reader, q *eviction.RankRequest) error {
	var l lists
	q.Candidates = make([]eviction.Candidate, 0, r.count(9))
	for r.next() {
		switch r.num {
		case 1:
			q.Pass = r.value
		case 2:
			q.Signal = eviction.Signal(r.text())
		case 3:
			q.Unit = eviction.Unit(r.text())
		case 4:
			readThreshold(&r, &q.Threshold)
		case 5:
			q.Available = r.int()
		case 6:
			q.Capacity = r.int()
		case 7:
			q.Shortfall = r.int()
		case 8:
			q.Hard = r.bool()
		case 9:
			decodeCandidate(&r, grow(&q.Candidates), &l)
			if len(q.Candidates) == 1 {
				l.expect(cap(q.Candidates) - 1)
			}
		}
	}
	return r.err
}

func decodeCandidate(r *reader, c *eviction.Candidate, l *lists) {
	for r.enter(); r.next(); {
		switch r.num {
		case 1:
			decodePod(r, &c.Pod, l)
		case 2:
			decodeMeasurement(r, &c.Measurement, l)
		}
	}
	c.Measurement.UID = c.Pod.UID
}

func appendThreshold(b []byte, t eviction.Threshold) []byte {
	if t.Fraction != 0 {
		return protowire.AppendFixed32(protowire.AppendTag(b, 2, protowire.Fixed32Type), math.Float32bits(t.Fraction))
	}
	return protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), uint64(t.Amount))
}

func readThreshold(r *reader, t *eviction.Threshold) {
	for r.enter(); r.next(); {
		switch r.num {
		case 1:
			*t = eviction.Threshold{Amount: r.int()}
		case 2:
			*t = eviction.Threshold{Fraction: math.Float32frombits(uint32(r.value))}
		}
	}
}

// rankResponse is a RankResponse that encodes and decodes itself.
type rankResponse struct {
	ranking []eviction.Ranked
	// atMost is the number of candidates: decode refuses more entries.
	atMost int
}

func (k *rankResponse) encode(b []byte) []byte {
	b = slices.Grow(b, 64+len(k.ranking)*128)
	for i := range k.ranking {
		one := &k.ranking[i]
		var at int
		b, at = beginMessage(b, 1)
		b = appendText(b, 1, one.UID)
		b = endMessage(appendText(b, 2, one.Reason), at)
	}
	return b
}

func (k *rankResponse) decode(s string) error {
	r := reader{rest: s}
	n := r.count(1)
	if n > k.atMost {
		return fmt.Errorf("%d pods in a ranking of %d candidates", n, k.atMost)
	}
	k.ranking = make([]eviction.Ranked, 0, n)
	for r.next() {
		if r.num == 1 {
			decodeRanked(&r, grow(&k.ranking))
		}
	}
	return r.err
}

func decodeRanked(r *reader, one *eviction.Ranked) {
	for r.enter(); r.next(); {
		switch r.num {
		case 1:
			one.UID = r.text()
		case 2:
			one.Reason = r.text()
		}
	}
}
