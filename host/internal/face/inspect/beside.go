package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/evictd/evictd/host/internal/face/beside"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/parts"
	"github.com/evictd/evictd/host/internal/node/fallback"
	"github.com/evictd/evictd/shared/eviction"
)

// Beside reports how the configurations of evictd and of its node's kubelet fit together.
type Beside struct {
	Findings []beside.Finding `json:"findings"`
	// Settings are the recommended ones for the kubelet.
	Settings beside.Settings `json:"kubeletConfiguration"`
}

// CheckBeside compares the thresholds of c with those of the kubelet that c.BesideKubelet and
// c.BesideKubeletDir name. It returns nil if these are empty. It reads the node's memory, disk and tasks
// as far as possible. falls is that of Options.
func CheckBeside(ctx context.Context, c *config.Config, falls func(stateDir string) map[eviction.Signal]int64) (*Beside, error) {
	source, named, err := config.KubeletOf(c)
	if !named {
		return nil, nil
	}
	var kubelet config.Kubelet
	if err == nil {
		kubelet, err = config.LoadKubelet(c.Node(), source)
	}
	thresholds, wrong := c.Thresholds()
	if err := errors.Join(err, wrong); err != nil {
		return nil, fmt.Errorf("besideKubelet: %w", err)
	}
	writes := c.Mode == config.ModeKubernetes
	node := beside.Node{
		Capacity: map[eviction.Signal]int64{}, Reserved: kubelet.Reserved, DropIns: source.Dir != "",
		OwnConditions: writes && c.NodeConditions != config.NodeConditionsNone, OwnTaints: writes && c.NodeConditions == config.NodeConditionsTaints,
	}
	signals := []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.PIDAvailable}
	reader := fallback.New(parts.NodeFacts(c, ""))
	for _, o := range reader.Observe(ctx, signals) {
		if o.State == eviction.Observed {
			node.Capacity[o.Signal] = o.Capacity
		}
	}
	if falls != nil && c.StateDir != "" {
		node.Falls = falls(c.StateDir)
	}
	findings := append(beside.Compare(thresholds, kubelet.Thresholds, node), kubelet.Beside(c)...)
	findings = append(findings, unlimited(c, kubelet, reader.Observe(ctx, []eviction.Signal{eviction.AllocatableMemoryAvailable})[0])...)
	settings := beside.Right(thresholds, kubelet.Thresholds, node)
	settings.CgroupsPerQOS = !kubelet.Config.CgroupsPerQOS && c.Source == config.SourceNative
	return &Beside{Findings: findings, Settings: settings}, nil
}

// unlimited finds a cgroup of all pods without the limit with which the kubelet keeps reserved memory from
// them. It sets the limit only when it starts, and a reload of systemd may remove it.
func unlimited(c *config.Config, k config.Kubelet, o eviction.Observation) []beside.Finding {
	lost := o.State == eviction.Absent && o.Err != "" && c.Source == config.SourceNative
	if !lost || k.Reserved.Memory.IsZero() || !k.Config.CgroupsPerQOS || !slices.Contains(k.Config.EnforceNodeAllocatable, "pods") {
		return nil
	}
	return []beside.Finding{{
		Signal: string(o.Signal), About: beside.Allocatable, Fix: true,
		Text: fmt.Sprintf("the kubelet reserves %s of memory, and the cgroup of all pods has no limit: its thresholds have no effect, and pods may take what is reserved; want a restart of the kubelet, which sets the limit", &k.Reserved.Memory),
	}}
}

// tryBeside compares both configurations.
func tryBeside(ctx context.Context, n *node, f *Findings) {
	b, err := CheckBeside(ctx, n.c, n.Falls)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		*f = append(*f, Finding{Level: Warning, Text: err.Error(), NoEvent: true})
		return
	case err != nil:
		f.addAll(Warning, err)
		return
	case b == nil:
		return
	}
	for _, fix := range b.Findings {
		if fix.Fix {
			f.add(Warning, "besideKubelet: %s: %s: %s", fix.Signal, fix.About, fix.Text)
		}
	}
}
