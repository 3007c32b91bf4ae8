package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/node/programs"
	"github.com/evictd/evictd/shared/eviction"
)

// defaults reports resources of which a kubelet has thresholds by default, and evictd, or the kubelet that runs here, has none.
// Memory is among the warnings of the configuration.
func defaults(c *config.Config, of func() (eviction.Layout, error)) (f Findings) {
	layout, err := of()
	separate := err == nil && layout != eviction.LayoutShared
	own := slices.DeleteFunc(lacking(c.EvictionHard, c.EvictionSoft, separate), func(s eviction.Signal) bool { return s == eviction.MemoryAvailable })
	if len(own) > 0 {
		f.add(Advice, "no threshold of %s is in force: no pod of this node is evicted when they run short; want %s, or 0%% if that is meant", list(own), wanted(own))
	}
	if source, named, err := config.KubeletOf(c); named && err == nil {
		if _, err := config.LoadKubelet(c.Node(), source); err == nil {
			return f // both are compared
		}
	}
	source, err := programs.RunningKubelet(c.Node(), c.KubeletRootDir)
	if err != nil { // most nodes of mode: cri have none
		return f
	}
	k, err := config.LoadKubelet(c.Node(), source)
	if lacks := lacking(k.Config.EvictionHard, k.Config.EvictionSoft, separate); err == nil && len(lacks) > 0 { // what is wrong there is the kubelet's
		f.add(Advice, "%s has no threshold of %s: without evictd no pod of this node is evicted when they run short; want for it %s", source.Of, list(lacks), wanted(lacks))
	}
	return f
}

// lacking returns the signals with a threshold by default, of memory and of disks that neither hard nor soft
// names. That of images counts if it is separate.
func lacking(hard, soft map[string]string, separate bool) (lacks []eviction.Signal) {
	defaults := policy.DefaultHard()
	for _, s := range eviction.BuiltinSignals() { // in a fixed order
		b, _ := eviction.Builtin(s)
		_, usual := defaults[string(s)]
		same := []eviction.Signal{s}
		if b.Filesystem != "" {
			same = eviction.SignalsOn(b.Filesystem)
		}
		named := slices.ContainsFunc(same, func(s eviction.Signal) bool {
			_, isHard := hard[string(s)]
			_, isSoft := soft[string(s)]
			return isHard || isSoft
		})
		if usual && !named && (b.Filesystem != eviction.ImageFs || separate) {
			lacks = append(lacks, s)
		}
	}
	return lacks
}

func list(signals []eviction.Signal) string {
	var names []string
	for _, s := range signals {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// wanted returns the key with the default thresholds of the signals.
func wanted(signals []eviction.Signal) string {
	var pairs []string
	for _, s := range signals {
		pairs = append(pairs, fmt.Sprintf("%s: %s", s, policy.DefaultHard()[string(s)]))
	}
	return "evictionHard: {" + strings.Join(pairs, ", ") + "}"
}
