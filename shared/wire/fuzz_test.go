package wire

import (
	"errors"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// Whatever the bytes, decoding ends in values or in a clear error: a plugin can
// send anything and must not bring down the host with it, nor the other way
// round.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, m := range []proto.Message{
		encodeHost(random[eviction.Host](r)),
		encodePlugin(&eviction.Plugin{Name: "p", Signals: random[[]eviction.SignalSpec](r), Ranker: &fake{}}),
		encodeConfigureRequest(random[eviction.ConfigureRequest](r)),
		encodeObserveRequest(random[eviction.ObserveRequest](r)),
		encodeObserveReply(random[eviction.ObserveReply](r)),
		referenceMeasureRequest(random[eviction.MeasureRequest](r)),
		referenceRankRequest(random[eviction.RankRequest](r)),
		referenceRanking(random[[]eviction.Ranked](r)),
		referenceMeasurements(random[[]eviction.Measurement](r)),
		encodeWatchRequest(random[eviction.WatchRequest](r)),
		encodeReclaimRequest(random[eviction.ReclaimRequest](r)),
		encodeReclaimed(random[eviction.Reclaimed](r)),
		&pluginv1.RankRequest{Candidates: []*pluginv1.Candidate{{}, nil}}, // neither pod nor measurement
		&pluginv1.WatchRequest{Thresholds: []*pluginv1.WatchThreshold{{}}},
		referenceMeasurements([]eviction.Measurement{{Usage: make([]eviction.SignalUsage, maxUsages+1)}}), // which is refused
	} {
		bytes, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = DecodeMeasurements(data)
		decode(data, decodeHost)
		decode(data, decodeConfigureRequest)
		decode(data, decodeObserveRequest)
		decode(data, decodeObserveReply)
		decode(data, decodeWatchRequest)
		decode(data, decodeWake)
		decode(data, decodeReclaimRequest)
		decode(data, decodeReclaimed)
		byBoth[pluginv1.MeasureRequest](t, data, new(measureRequest))
		byBoth[pluginv1.MeasureResponse](t, data, new(measurements))
		byBoth[pluginv1.RankRequest](t, data, new(rankRequest))
		byBoth[pluginv1.RankResponse](t, data, &rankResponse{atMost: len(data)})
		decode(data, func(w *pluginv1.DescribeResponse) eviction.Plugin {
			p, err := new(Client).connect(w)
			switch {
			case err != nil && !errors.Is(err, eviction.ErrInvalidReply):
				t.Errorf("got %v, want an ErrInvalidReply", err)
			case err == nil && p.Validate() != nil:
				t.Errorf("accepted, but not valid: %v", p.Validate())
			}
			return p
		})
	})
}

// decode decodes data if it is a message of its type at all.
func decode[W any, D any, PW interface {
	*W
	proto.Message
}](data []byte, convert func(PW) D) {
	if w := PW(new(W)); proto.Unmarshal(data, w) == nil {
		convert(w)
	}
}

// byBoth checks that what is read by hand is never more than what generated
// code accepts. It is less where there are limits on how long lists may be.
func byBoth[W any, PW interface {
	*W
	proto.Message
}](t *testing.T, data []byte, m incoming) {
	if m.decode(string(data)) == nil {
		if err := proto.Unmarshal(data, PW(new(W))); err != nil {
			t.Errorf("%T reads what generated code does not: %v", m, err)
		}
	}
}
