package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// chunk bounds the pods of a message.
const chunk = 100

// made is the input of most checks of Measure.
const made = "500 pods that this machine does not have, for all signals that are offered for it"

var measureGroup = group{name: "measure", rpc: "Measure", needs: eviction.CanMeasure, opens: (*run).openObserved, checks: []check{
	{
		name: "measure", input: made, gate: true, limit: measureTime + 2*time.Second,
		expect: fmt.Sprintf("the answers within %s, or what there is by then", measureTime), run: measured500,
	},
	{
		name: "measure-answers", input: made,
		expect: "an answer for each pod, also for one that is not there", run: measuredAnswers,
	},
	{
		name: "measure-only-asked", input: made,
		expect: "no pod that was not asked for", run: measuredOnlyAsked,
	},
	{
		name: "measure-once", input: made,
		expect: "no pod twice", run: measuredOnce,
	},
	{
		name: "measure-chunks", input: made,
		expect: fmt.Sprintf("at most %d pods a message", chunk), run: measuredInChunks,
	},
	{
		name: "measure-figures", input: made,
		expect: "no figure below zero, usage only of signals that were asked for", run: measuredFigures,
	},
	{
		name: "measure-no-pod", input: made,
		expect: "unknown or no_stats where every pod that runs uses something: memory and processes. 0 is a figure, and a pod that is not there has none", run: measuredNoZeros,
	},
	{
		name: "measure-none", input: "no pods",
		expect: "an end without answers", run: measuredNone,
	},
	{
		name: "measure-one", input: "one pod, by a host that is newer",
		expect: "at most one answer", run: measuredOne,
	},
	{
		name: "measure-detail", input: "DETAIL_CONTAINERS, then DETAIL_POD",
		expect: "containers and volumes of the pod, in DETAIL_POD none", run: measuredDetail,
	},
	{
		name: "measure-odd-uids", input: `uids such as "", "../../..", 4 KiB of "x", "pod\x00"`,
		expect: "no figures of other things than pods", run: measuredOddUIDs,
	},
	{
		name: "measure-rank", input: "20 pods and MeasureRequest.rank",
		expect: "no ranking, or the one that Rank gives", run: measuredAndRanked,
	},
	{
		name: "measure-parallel", input: "8 calls with 50 pods at once",
		expect: "each answers only its own pods", run: measuredInParallel,
	},
	{
		name: "measure-cancelled", input: "20 calls that end before their answer, then one more",
		expect: "the last one is answered", run: measuredAfterCancelled,
	},
}}

// A transcript holds the answer to a Measure, message by message.
type transcript struct {
	messages [][]eviction.Measurement
	err      error
}

func (t *transcript) rows() []eviction.Measurement { return slices.Concat(t.messages...) }

const (
	detailPod        = 1
	detailContainers = 2
)

func measured500(ctx context.Context, t *target) error {
	got := t.measure(ctx, measureTime, t.measureMessage(detailPod, t.pods(500)))
	t.measured = got
	_, unfinished := errors.AsType[slow](got.err)
	if got.err == nil || unfinished && len(got.rows()) > 0 {
		return nil
	}
	if errors.Is(got.err, eviction.ErrRefused) {
		return cannot(got.err.Error())
	}
	return got.err
}

// fromMeasured looks at the answer of 500 pods.
func fromMeasured(t *target, look func(eviction.Measurement) string) error {
	if t.measured == nil {
		return errAnew
	}
	for _, m := range t.measured.rows() {
		if seen := look(m); seen != "" {
			return fmt.Errorf("pod %.80q: %s", m.UID, seen)
		}
	}
	return nil
}

func measuredOnlyAsked(_ context.Context, t *target) error {
	asked := map[string]bool{}
	for _, p := range t.pods(500) {
		asked[p.UID] = true
	}
	return fromMeasured(t, func(m eviction.Measurement) string {
		if !asked[m.UID] {
			return "it was not asked for"
		}
		return ""
	})
}

func measuredOnce(_ context.Context, t *target) error {
	seen := map[string]bool{}
	return fromMeasured(t, func(m eviction.Measurement) string {
		if seen[m.UID] {
			return "answered twice"
		}
		seen[m.UID] = true
		return ""
	})
}

func measuredInChunks(_ context.Context, t *target) error {
	if t.measured == nil {
		return errAnew
	}
	for _, m := range t.measured.messages {
		if len(m) > chunk {
			return fmt.Errorf("%d pods in one message", len(m))
		}
	}
	return nil
}

func measuredFigures(_ context.Context, t *target) error {
	signals := t.offering(eviction.CanMeasure)
	return fromMeasured(t, func(m eviction.Measurement) string {
		for _, u := range m.Usage {
			switch {
			case u.Value < 0:
				return fmt.Sprintf("usage of %s is %d", u.Signal, u.Value)
			case !slices.Contains(signals, u.Signal):
				return fmt.Sprintf("usage of %q, which was not asked for", u.Signal)
			}
		}
		for _, f := range []struct {
			name   string
			figure eviction.Figure
		}{{"working set", m.WorkingSetBytes}, {"processes", m.Processes}, {"ephemeral storage", m.EphemeralStorageUsedBytes}} {
			if f.figure.Value < 0 {
				return fmt.Sprintf("%s is %d", f.name, f.figure.Value)
			}
		}
		return ""
	})
}

// measuredAnswers looks at a call that came to its end: one that ran out of time has
// sent what it had.
func measuredAnswers(_ context.Context, t *target) error {
	if t.measured == nil || t.measured.err != nil {
		return notApplicable("it did not come to its end")
	}
	rows := t.measured.rows()
	switch {
	case len(rows) == 0:
		return errors.New("all of 500 pods are left out")
	case len(rows) < 500:
		return noted(fmt.Sprintf("%d of 500 pods are left out, which makes them unknown", 500-len(rows)))
	}
	return nil
}

// measuredNoZeros is about what no pod is without, memory and processes: of a disk or
// of a vendor's own resource a pod may well use nothing. It accepts figures that are
// not zero: a plugin may know of pods by other ways than this machine.
func measuredNoZeros(_ context.Context, t *target) error {
	var never []eviction.Signal
	for _, signal := range []eviction.Signal{eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable, eviction.PIDAvailable} {
		if slices.Contains(t.offering(eviction.CanMeasure), signal) {
			never = append(never, signal)
		}
	}
	if len(never) == 0 {
		return notApplicable("of what it measures a pod may use nothing")
	}
	return fromMeasured(t, func(m eviction.Measurement) string {
		for _, u := range m.Usage {
			if u.Value != 0 {
				return ""
			}
		}
		if m.State != eviction.Measured || m.WorkingSetBytes.Value != 0 || m.Processes.Value != 0 || m.EphemeralStorageUsedBytes.Value != 0 {
			return ""
		}
		return fmt.Sprintf("measured, with nothing but zeros, of %s too", never[0])
	})
}

func measuredNone(ctx context.Context, t *target) error {
	got := t.measure(ctx, measureTime, t.measureMessage(detailPod, nil))
	if got.err == nil && len(got.rows()) > 0 {
		return fmt.Errorf("%d answers", len(got.rows()))
	}
	return got.err
}

func measuredOne(ctx context.Context, t *target) error {
	pod := t.podMessage(&t.pods(1)[0]).newer()
	got := t.measure(ctx, measureTime, t.measureMessage(99, nil).bytes(5, pod).newer())
	if got.err == nil && len(got.rows()) > 1 {
		return fmt.Errorf("%d answers", len(got.rows()))
	}
	return got.err
}

func measuredDetail(ctx context.Context, t *target) error {
	pods := t.pods(20)
	got := t.measure(ctx, measureTime, t.measureMessage(detailContainers, pods))
	if got.err != nil {
		return fmt.Errorf("DETAIL_CONTAINERS: %w", got.err)
	}
	for _, m := range got.rows() {
		for _, c := range m.Containers {
			if c.Name != "main" {
				return fmt.Errorf("DETAIL_CONTAINERS: pod %s has a container %q, want those of its row", m.UID, c.Name)
			}
		}
	}
	got = t.measure(ctx, measureTime, t.measureMessage(detailPod, pods))
	for _, m := range got.rows() {
		if len(m.Containers)+len(m.Volumes) > 0 {
			return fmt.Errorf("DETAIL_POD: pod %s has %d containers and %d volumes", m.UID, len(m.Containers), len(m.Volumes))
		}
	}
	return got.err
}

func measuredOddUIDs(ctx context.Context, t *target) error {
	uids := []string{"", "/", ".", "..", "../../..", "../../../../../../proc/self", strings.Repeat("x", 4096), "pod\x00", "a/b", "größe", "%s%n", "\n", "*"}
	pods := t.pods(len(uids))
	for i := range pods {
		pods[i].UID = uids[i]
		pods[i].Volumes[0].Name = uids[len(uids)-1-i]
		pods[i].Containers[0].ID = uids[i]
	}
	got := t.measure(ctx, measureTime, t.measureMessage(detailContainers, pods))
	if err := answered(got.err); err != nil {
		return err
	}
	for _, m := range got.rows() {
		if !slices.Contains(uids, m.UID) {
			return fmt.Errorf("pod %.80q was not asked for", m.UID)
		}
		if m.State == eviction.Measured && strings.ContainsAny(m.UID, "/.") {
			return fmt.Errorf("pod %.80q is measured: %+v", m.UID, m)
		}
	}
	return nil
}

func measuredAndRanked(ctx context.Context, t *target) error {
	both, ok := t.plugin.Measurer.(eviction.MeasureRanker)
	signals := slices.DeleteFunc(t.offering(eviction.CanRank), func(signal eviction.Signal) bool {
		return !slices.Contains(t.offering(eviction.CanMeasure), signal)
	})
	if !ok || len(signals) == 0 {
		return notApplicable("it does not offer to measure and rank the same signal")
	}
	pods := t.pods(20)
	request := t.rankRequest(signals[0], nil)
	candidates := make([]eviction.Candidate, len(pods))
	for i := range pods {
		candidates[i] = eviction.Candidate{Pod: pods[i], Measurement: eviction.Measurement{UID: pods[i].UID}}
	}
	var ranking eviction.Ranking
	err := t.run.options.within(ctx, measureTime, func(ctx context.Context) (err error) {
		ranking, err = both.MeasureAndRank(ctx, eviction.MeasureRequest{
			PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Detail: eviction.DetailPod, Signals: signals, Pods: pods,
		}, request, func(m eviction.Measurement) {
			i := slices.IndexFunc(pods, func(p eviction.Pod) bool { return p.UID == m.UID })
			candidates[i].Measurement = m
		})
		return err
	})
	if err != nil {
		return err
	}
	if ranking.Order == nil {
		return nil
	}
	for i := range pods {
		if candidates[i].Measurement.State == eviction.MeasurementUnknown {
			return fmt.Errorf("a ranking although pod %s is unknown", pods[i].UID)
		}
	}
	var got []string
	for _, r := range ranking.Order {
		got = append(got, r.UID)
	}
	request.Candidates = candidates
	want, err := t.rank(ctx, request)
	if err != nil {
		return fmt.Errorf("rank: %w", err)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("with the measurements %s, by Rank %s", brief(got), brief(want))
	}
	return nil
}

func measuredInParallel(ctx context.Context, t *target) error {
	pods := t.pods(400)
	return all(8, func(i int) error {
		mine := pods[i*50 : (i+1)*50]
		got := t.measure(ctx, measureTime, t.measureMessage(detailPod, mine))
		if got.err != nil {
			return got.err
		}
		for _, m := range got.rows() {
			if !slices.ContainsFunc(mine, func(p eviction.Pod) bool { return p.UID == m.UID }) {
				return fmt.Errorf("pod %.80q is of another call", m.UID)
			}
		}
		return nil
	})
}

func measuredAfterCancelled(ctx context.Context, t *target) error {
	request := t.measureMessage(detailPod, t.pods(100))
	givenUp(ctx, 20, func(ctx context.Context) error { return t.measure(ctx, time.Second, request).err })
	return t.measure(ctx, measureTime, t.measureMessage(detailPod, t.pods(1))).err
}
