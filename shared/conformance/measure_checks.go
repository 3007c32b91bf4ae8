package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// chunk is how many pods a message may have.
const chunk = 100

func measureChecks() []check {
	const made = "500 pods that this machine does not have, for all signals that are offered for it"
	checks := []check{
		{
			name: "measure", rpc: "Measure", input: made, gate: true, limit: measureTime + 2*time.Second,
			expect: fmt.Sprintf("the answers within %s, or what there is by then", measureTime), run: measured500,
		},
		{
			name: "measure-answers", rpc: "Measure", input: made,
			expect: "an answer for each pod, also for one that is not there", run: measuredAnswers,
		},
		{
			name: "measure-only-asked", rpc: "Measure", input: made,
			expect: "no pod that was not asked for", run: measuredOnlyAsked,
		},
		{
			name: "measure-once", rpc: "Measure", input: made,
			expect: "no pod twice", run: measuredOnce,
		},
		{
			name: "measure-chunks", rpc: "Measure", input: made,
			expect: fmt.Sprintf("at most %d pods a message", chunk), run: measuredInChunks,
		},
		{
			name: "measure-figures", rpc: "Measure", input: made,
			expect: "no figure below zero, usage only of signals that were asked for", run: measuredFigures,
		},
		{
			name: "measure-no-pod", rpc: "Measure", input: made,
			expect: "unknown or no_stats where every pod that runs uses something: memory and processes. 0 is a figure, and a pod that is not there has none", run: measuredNoZeros,
		},
		{
			name: "measure-none", rpc: "Measure", input: "no pods",
			expect: "an end without answers", run: measuredNone,
		},
		{
			name: "measure-one", rpc: "Measure", input: "one pod, by a host that is newer",
			expect: "at most one answer", run: measuredOne,
		},
		{
			name: "measure-detail", rpc: "Measure", input: "DETAIL_CONTAINERS, then DETAIL_POD",
			expect: "containers and volumes of the pod, in DETAIL_POD none", run: measuredDetail,
		},
		{
			name: "measure-odd-uids", rpc: "Measure", input: `uids such as "", "../../..", 4 KiB of "x", "pod\x00"`,
			expect: "no figures of other things than pods", run: measuredOddUIDs,
		},
		{
			name: "measure-rank", rpc: "Measure", input: "20 pods and MeasureRequest.rank",
			expect: "no ranking, or the one that Rank gives", run: measuredAndRanked,
		},
		{
			name: "measure-parallel", rpc: "Measure", input: "8 calls with 50 pods at once",
			expect: "each answers only its own pods", run: measuredInParallel,
		},
		{
			name: "measure-cancelled", rpc: "Measure", input: "20 calls that end before their answer, then one more",
			expect: "the last one is answered", run: measuredAfterCancelled,
		},
	}
	for i := range checks {
		checks[i].needs = eviction.CanMeasure
	}
	return checks
}

// A transcript is what a Measure answered, message by message.
type transcript struct {
	messages [][]eviction.Measurement
	ranked   bool
	err      error
}

func (t *transcript) rows() []eviction.Measurement { return slices.Concat(t.messages...) }

// measure calls Measure and keeps the answers as they came.
func (t *target) measure(ctx context.Context, limit time.Duration, request message) *transcript {
	got := &transcript{}
	got.err = t.options.within(ctx, limit, func(ctx context.Context) error {
		var wrong error
		err := t.measureStream(ctx, request, func(raw []byte) {
			rows, ranked, err := parseMeasurements(raw)
			wrong = errors.Join(wrong, err)
			got.messages = append(got.messages, rows)
			got.ranked = got.ranked || ranked
		})
		return errors.Join(rpcError(ctx, err), wrong)
	})
	return got
}

func (t *target) measureStream(ctx context.Context, request message, take func([]byte)) error {
	return stream(ctx, t.cc, service+"Measure", request, take)
}

// measureMessage is a request for all signals that are offered for it.
func (t *target) measureMessage(detail int64, pods []eviction.Pod) message {
	m := message{}.number(1, 1).number(2, 1).number(3, detail)
	for _, signal := range t.offering(eviction.CanMeasure) {
		m = m.text(4, string(signal))
	}
	for i := range pods {
		m = m.bytes(5, podMessage(&pods[i]))
	}
	return m
}

const (
	detailPod        = 1
	detailContainers = 2
)
