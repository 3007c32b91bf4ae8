package host

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/host/internal/nodestatus"
	"github.com/evictd/evictd/host/internal/parts"
	"github.com/evictd/evictd/host/internal/pods"
	podcri "github.com/evictd/evictd/host/internal/podsource/cri"
	podkubernetes "github.com/evictd/evictd/host/internal/podsource/kubernetes"
	"github.com/evictd/evictd/host/internal/podsource/listing"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/victim"
	victimcri "github.com/evictd/evictd/host/internal/victim/cri"
	victimkubernetes "github.com/evictd/evictd/host/internal/victim/kubernetes"
)

// modeOptions configures a mode.
type modeOptions struct {
	config  *Config
	version string
	// ending holds the options for ending pods through the container runtime.
	ending  victimcri.Options
	journal loop.Journal
	known   podkubernetes.Store
	// restored are the kills of a former host, dryRun says whether anybody is killed now.
	restored []rundir.Kill
	dryRun   func() bool
	// short says of a resource whether it is known if the node is short of it, and whether it is.
	short func(resource string) (known, is bool)
	// wanted has what plugins want to see of pods.
	wanted *pods.Wanted
	// refused takes a pod whose eviction the API server refuses for good, and why.
	refused func(pod pods.Pod, why error)
}

// A mode finds the pods of the node and ends them.
type mode struct {
	pods    *listing.Source
	killer  victim.Killer
	journal loop.Journal
	// restored are the kills of a former host that are to be judged.
	restored []rundir.Kill
	// cluster is nil where there is none.
	cluster *cluster
}

// modes holds the constructor of each Config.Mode. The error says what a mode cannot do without.
var modes = map[string]func(modeOptions) (mode, error){
	config.ModeCRI: func(o modeOptions) (mode, error) {
		return mode{
			pods:     listing.New(podcri.New(o.ending.Runtime, parts.Manifests(o.config, o.wanted)), o.ending.Log),
			killer:   victimcri.New(o.ending),
			journal:  o.journal,
			restored: o.restored,
		}, nil
	},
	config.ModeKubernetes: func(o modeOptions) (mode, error) {
		api, err := parts.API(o.config, o.version, o.ending.Log)
		if err != nil {
			return mode{}, fmt.Errorf("kubeconfig: %q: %w", o.config.Kubeconfig, err)
		}
		rules := parts.Rules(o.config)
		rules.Wanted = o.wanted
		source, err := podkubernetes.New(api, o.ending.Runtime, rules, o.known)
		if err != nil {
			o.ending.Log.Warn("pods that a former evictd saved are not used", "error", err)
		}
		of := &cluster{api: api, source: source, nodeName: o.config.NodeName, log: o.ending.Log}
		settle := func(context.Context) {}
		if o.config.NodeConditions != config.NodeConditionsNone {
			of.conditions = nodestatus.New(api, o.config.NodeConditions == config.NodeConditionsTaints, o.dryRun, o.ending.Log)
			settle = of.conditions.Settle
		}
		killer := victimkubernetes.New(victimkubernetes.Options{
			Options: o.ending, API: api, NodeName: o.config.NodeName, Refused: o.refused, Settle: settle, Journal: o.journal, DryRun: o.dryRun, Short: o.short, Pods: source.Pods,
		})
		of.killer = killer
		return mode{pods: listing.New(source, o.ending.Log), killer: killer, journal: journal{o.journal, killer}, restored: killer.Restore(o.restored), cluster: of}, nil
	},
}

// A journal has its kills somewhere else than the rest.
type journal struct {
	loop.Journal
	kills victim.Journal
}

// SaveKill implements loop.Journal.
func (j journal) SaveKill(k rundir.Kill) error { return j.kills.SaveKill(k) }

// RemoveKill implements loop.Journal.
func (j journal) RemoveKill(uid string) error { return j.kills.RemoveKill(uid) }
