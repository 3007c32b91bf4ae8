// Package measure checks Measure.
package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/observe"
	"github.com/evictd/evictd/shared/conformance/internal/sample"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// chunk is the maximum number of pods in a message.
const chunk = 100

// made is the input of most checks of Measure.
const made = "500 pods that this machine does not have, for all signals that are offered for it"

// request asks for some pods and wants no others.
var request check.Request = func(_ context.Context, t *check.Target, from, to int) func(context.Context, time.Duration) error {
	pods := sample.Pods(t, to)[from:]
	m := Message(t, DetailPod, pods)
	return func(ctx context.Context, limit time.Duration) error {
		got := Call(ctx, t, limit, m)
		for _, m := range got.rows() {
			if got.Err == nil && !slices.ContainsFunc(pods, func(p eviction.Pod) bool { return p.UID == m.UID }) {
				return fmt.Errorf("pod %.80q is of another call", m.UID)
			}
		}
		return got.Err
	}
}

// Group has the checks of Measure.
var Group = check.Group{Name: "measure", RPC: "Measure", Needs: eviction.CanMeasure, Before: observed, Input: made, Checks: []check.Check{
	{
		Name: "measure", Gate: true, Limit: eviction.MeasureDeadline + 2*time.Second,
		Expect: fmt.Sprintf("the answers within %s, or what there is by then", eviction.MeasureDeadline), Run: measured500,
	},
	{Name: "measure-answers", Expect: "an answer for each pod, also for one that is not there", Run: check.Later(answers)},
	{Name: "measure-only-asked", Expect: "no pod that was not asked for", Run: check.Later(onlyAsked)},
	{Name: "measure-once", Expect: "no pod twice", Run: check.Later(once)},
	{Name: "measure-chunks", Expect: fmt.Sprintf("at most %d pods a message", chunk), Run: check.Later(inChunks)},
	{Name: "measure-figures", Expect: "no figure below zero, usage only of signals that were asked for", Run: check.Later(figures)},
	{
		Name:   "measure-no-pod",
		Expect: "unknown or no_stats where every pod that runs uses something: memory and processes. 0 is a figure, and a pod that is not there has none", Run: check.Later(noZeros),
	},
	{Name: "measure-none", Input: "no pods", Expect: "an end without answers", Run: atMost(0, none)},
	{Name: "measure-one", Input: "one pod, by a host that is newer", Expect: "at most one answer", Run: atMost(1, oneByNewer)},
	{Name: "measure-detail", Input: "DETAIL_CONTAINERS, then DETAIL_POD", Expect: "containers and volumes of the pod, in DETAIL_POD none", Run: measuredDetail},
	{Name: "measure-odd-uids", Input: `uids such as "", "../../..", 4 KiB of "x", "pod\x00"`, Expect: "no figures of other things than pods", Run: measuredOddUIDs},
	{Name: "measure-parallel", Input: "8 calls with 50 pods at once", Expect: "each answers only its own pods", Run: request.Parallel(8, 50, eviction.MeasureDeadline)},
	{Name: "measure-cancelled", Input: "20 calls that end before their answer, then one more", Expect: "the last one is answered", Run: request.Cancelled(20, eviction.MeasureDeadline)},
}}

// A Transcript holds the answer to a Measure, message by message.
type Transcript struct {
	messages [][]eviction.Measurement
	Err      error
}

func (t *Transcript) rows() []eviction.Measurement { return slices.Concat(t.messages...) }

// The values of Detail in the protocol.
const (
	DetailPod        = 1
	detailContainers = 2
)

// observed observes once, as the host does before it measures.
func observed(ctx context.Context, t *check.Target) error {
	if len(t.Offering(eviction.CanObserve)) == 0 {
		return nil
	}
	_, err := observe.All(ctx, t)
	return err
}

func measured500(ctx context.Context, t *check.Target) error {
	got := Call(ctx, t, eviction.MeasureDeadline, Message(t, DetailPod, sample.Pods(t, 500)))
	t.Kept = got
	_, unfinished := errors.AsType[check.Slow](got.Err)
	if got.Err == nil || unfinished && len(got.rows()) > 0 {
		return nil
	}
	if errors.Is(got.Err, eviction.ErrRefused) {
		return check.Cannot(got.Err.Error())
	}
	return got.Err
}

// each applies look to each answer. It says what is wrong with the answer, "" if nothing is.
func (t *Transcript) each(look func(eviction.Measurement) string) error {
	for _, m := range t.rows() {
		if seen := look(m); seen != "" {
			return fmt.Errorf("pod %.80q: %s", m.UID, seen)
		}
	}
	return nil
}

func onlyAsked(t *check.Target, got *Transcript) error {
	asked := map[string]bool{}
	for _, p := range sample.Pods(t, 500) {
		asked[p.UID] = true
	}
	return got.each(func(m eviction.Measurement) string {
		if !asked[m.UID] {
			return "it was not asked for"
		}
		return ""
	})
}

func once(_ *check.Target, got *Transcript) error {
	seen := map[string]bool{}
	return got.each(func(m eviction.Measurement) string {
		if seen[m.UID] {
			return "answered twice"
		}
		seen[m.UID] = true
		return ""
	})
}

func inChunks(_ *check.Target, got *Transcript) error {
	for _, m := range got.messages {
		if len(m) > chunk {
			return fmt.Errorf("%d pods in one message", len(m))
		}
	}
	return nil
}

func figures(t *check.Target, got *Transcript) error {
	signals := t.Offering(eviction.CanMeasure)
	return got.each(func(m eviction.Measurement) string {
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

// answers judges only a call that was not cut off: one that ran out of time has sent only part of
// its answers.
func answers(_ *check.Target, got *Transcript) error {
	n := len(got.rows())
	switch {
	case got.Err != nil:
		return check.NotApplicable("it did not come to its end")
	case n == 0:
		return errors.New("all of 500 pods are left out")
	case n < 500:
		return check.Noted(fmt.Sprintf("%d of 500 pods are left out, which makes them unknown", 500-n))
	}
	return nil
}

// noZeros is about memory and processes, which every pod uses; a pod may well use
// nothing of a disk or a vendor's resource. It accepts figures other than zero: a plugin may
// know pods from another source than this machine.
func noZeros(t *check.Target, got *Transcript) error {
	never := slices.DeleteFunc([]eviction.Signal{eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable, eviction.PIDAvailable}, func(signal eviction.Signal) bool {
		return !slices.Contains(t.Offering(eviction.CanMeasure), signal)
	})
	if len(never) == 0 {
		return check.NotApplicable("of what it measures a pod may use nothing")
	}
	return got.each(func(m eviction.Measurement) string {
		used := slices.ContainsFunc(m.Usage, func(u eviction.SignalUsage) bool { return u.Value != 0 })
		if used || m.State != eviction.Measured || m.WorkingSetBytes.Value != 0 || m.Processes.Value != 0 || m.EphemeralStorageUsedBytes.Value != 0 {
			return ""
		}
		return fmt.Sprintf("measured, with nothing but zeros, of %s too", never[0])
	})
}

// atMost returns a check that there are at most n answers.
func atMost(n int, request func(*check.Target) check.Message) check.Run {
	return func(ctx context.Context, t *check.Target) error {
		got := Call(ctx, t, eviction.MeasureDeadline, request(t))
		if got.Err == nil && len(got.rows()) > n {
			return fmt.Errorf("%d answers", len(got.rows()))
		}
		return got.Err
	}
}

func none(t *check.Target) check.Message { return Message(t, DetailPod, nil) }

func oneByNewer(t *check.Target) check.Message {
	return Message(t, 99, nil).Bytes(5, sample.PodMessage(t, &sample.Pods(t, 1)[0]).Newer()).Newer()
}

func measuredDetail(ctx context.Context, t *check.Target) error {
	pods := sample.Pods(t, 20)
	got := Call(ctx, t, eviction.MeasureDeadline, Message(t, detailContainers, pods))
	if got.Err != nil {
		return fmt.Errorf("DETAIL_CONTAINERS: %w", got.Err)
	}
	for _, m := range got.rows() {
		for _, c := range m.Containers {
			if c.Name != "main" {
				return fmt.Errorf("DETAIL_CONTAINERS: pod %s has a container %q, want those of its row", m.UID, c.Name)
			}
		}
	}
	got = Call(ctx, t, eviction.MeasureDeadline, Message(t, DetailPod, pods))
	for _, m := range got.rows() {
		if len(m.Containers)+len(m.Volumes) > 0 {
			return fmt.Errorf("DETAIL_POD: pod %s has %d containers and %d volumes", m.UID, len(m.Containers), len(m.Volumes))
		}
	}
	return got.Err
}

func measuredOddUIDs(ctx context.Context, t *check.Target) error {
	uids := []string{"", "/", ".", "..", "../../..", "../../../../../../proc/self", strings.Repeat("x", 4096), "pod\x00", "a/b", "größe", "%s%n", "\n", "*"}
	pods := sample.Pods(t, len(uids))
	for i := range pods {
		pods[i].UID = uids[i]
		pods[i].Volumes[0].Name = uids[len(uids)-1-i]
		pods[i].Containers[0].ID = uids[i]
	}
	got := Call(ctx, t, eviction.MeasureDeadline, Message(t, detailContainers, pods))
	if err := check.Answered(got.Err); err != nil {
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

// Call calls Measure and keeps the answers message by message.
func Call(ctx context.Context, t *check.Target, limit time.Duration, request check.Message) *Transcript {
	got := &Transcript{}
	got.Err = t.Within(ctx, limit, func(ctx context.Context) error {
		var wrong error
		err := t.Stream(ctx, "Measure", request, func(raw []byte) {
			rows, err := wire.DecodeMeasurements(raw)
			wrong = errors.Join(wrong, err)
			got.messages = append(got.messages, rows)
		})
		return errors.Join(err, wrong)
	})
	return got
}

// Message encodes a request for all signals that the plugin offers to measure.
func Message(t *check.Target, detail int64, pods []eviction.Pod) check.Message {
	m := check.Message{}.Number(1, 1).Number(2, 1).Number(3, detail)
	for _, signal := range t.Offering(eviction.CanMeasure) {
		m = m.Text(4, string(signal))
	}
	for i := range pods {
		m = m.Bytes(5, sample.PodMessage(t, &pods[i]))
	}
	return m
}
