package inspect

import (
	"context"
	"errors"
	"fmt"

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

// CheckBeside compares the thresholds of c with those of the kubelet in c.BesideKubelet and
// c.BesideKubeletDir. It returns nil if these are empty. It reads the node's memory, disk and tasks
// as far as possible. falls is that of Options.
func CheckBeside(ctx context.Context, c *config.Config, falls func(stateDir string) map[eviction.Signal]int64) (*Beside, error) {
	if c.BesideKubelet == "" && c.BesideKubeletDir == "" {
		return nil, nil
	}
	kubelet, err := config.LoadKubelet(c.BesideKubelet, c.BesideKubeletDir)
	thresholds, wrong := c.Thresholds()
	if err := errors.Join(err, wrong); err != nil {
		return nil, fmt.Errorf("besideKubelet: %w", err)
	}
	writes := c.Mode == config.ModeKubernetes
	node := beside.Node{
		Capacity: map[eviction.Signal]int64{}, Reserved: kubelet.Reserved, DropIns: c.BesideKubeletDir != "",
		OwnConditions: writes && c.NodeConditions != config.NodeConditionsNone, OwnTaints: writes && c.NodeConditions == config.NodeConditionsTaints,
	}
	signals := []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.PIDAvailable}
	for _, o := range fallback.New(parts.NodeFacts(c, "")).Observe(ctx, signals) {
		if o.State == eviction.Observed {
			node.Capacity[o.Signal] = o.Capacity
		}
	}
	if falls != nil && c.StateDir != "" {
		node.Falls = falls(c.StateDir)
	}
	findings := append(beside.Compare(thresholds, kubelet.Thresholds, node), kubelet.Beside(c)...)
	settings := beside.Right(thresholds, kubelet.Thresholds, node)
	settings.CgroupsPerQOS = !kubelet.Config.CgroupsPerQOS && c.Source == config.SourceNative
	return &Beside{Findings: findings, Settings: settings}, nil
}

// tryBeside compares both configurations.
func tryBeside(ctx context.Context, n *node, f *Findings) {
	b, err := CheckBeside(ctx, n.c, n.Falls)
	if err != nil {
		f.addAll(Warning, err)
		return
	}
	if b == nil {
		return
	}
	for _, fix := range b.Findings {
		if fix.Fix {
			f.add(Warning, "besideKubelet: %s: %s: %s", fix.Signal, fix.About, fix.Text)
		}
	}
}
