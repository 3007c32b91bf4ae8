package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/host/internal/why/replay"
)

// figures holds the summaries of a step, decoded once for all managers.
type figures struct{ first, after *statsapi.Summary }

// decode returns the figures of each step.
func decode(s *replay.Scenario) ([]figures, error) {
	out := make([]figures, len(s.Steps))
	var last *statsapi.Summary
	for i := range s.Steps {
		step := &s.Steps[i]
		if len(step.Summary) > 0 {
			last = &statsapi.Summary{}
			if err := json.Unmarshal(step.Summary, last); err != nil {
				return nil, fmt.Errorf("steps[%d].summary: %w", i, err)
			}
		}
		out[i] = figures{first: last, after: last}
		if step.Reclaim != nil && len(step.Reclaim.SummaryAfter) > 0 {
			out[i].after = &statsapi.Summary{}
			if err := json.Unmarshal(step.Reclaim.SummaryAfter, out[i].after); err != nil {
				return nil, fmt.Errorf("steps[%d].reclaim.summaryAfter: %w", i, err)
			}
		}
	}
	return out, nil
}

// node simulates the environment of a manager in a step: figures, filesystems and reclaim.
type node struct {
	layout  string
	step    *replay.Step
	figures figures
	record  *Record
	calls   int
}

func (n *node) Get(context.Context, bool) (*statsapi.Summary, error) {
	n.calls++
	summary, text := n.figures.first, n.step.SummaryError
	if n.calls > 1 {
		summary, text = n.figures.after, ""
		if n.step.Reclaim != nil {
			text = n.step.Reclaim.SummaryAfterError
		}
	}
	if text != "" {
		return nil, errors.New(text)
	}
	if summary == nil {
		return nil, errors.New("no summary yet")
	}
	return summary, nil
}

func (n *node) GetCPUAndMemoryStats(ctx context.Context) (*statsapi.Summary, error) {
	return n.Get(ctx, false)
}

func (n *node) HasDedicatedImageFs(context.Context) (bool, error) {
	return n.layout != replay.LayoutShared, failed(n.step.DiskInfoError)
}

func (n *node) HasDedicatedContainerFs(context.Context) (bool, error) {
	if err := failed(n.step.ContainerFsInfoError); err != nil {
		return false, err
	}
	return n.layout == replay.LayoutContainerFs, nil
}

func (n *node) DeleteAllUnusedContainers(context.Context) error {
	n.record.Outcome.ReclaimCalls = append(n.record.Outcome.ReclaimCalls, "container-gc")
	if n.step.Reclaim == nil {
		return nil
	}
	return failed(n.step.Reclaim.ContainerGCError)
}

func (n *node) DeleteUnusedImages(context.Context) error {
	n.record.Outcome.ReclaimCalls = append(n.record.Outcome.ReclaimCalls, "image-gc")
	if n.step.Reclaim == nil {
		return nil
	}
	return failed(n.step.Reclaim.ImageGCError)
}

func failed(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
