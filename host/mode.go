package host

import (
	"context"
	"log/slog"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/host/internal/cluster/events"
	"github.com/evictd/evictd/host/internal/cluster/kubeapi"
	"github.com/evictd/evictd/host/internal/cluster/nodestatus"
	podkubernetes "github.com/evictd/evictd/host/internal/cluster/podsource/kubernetes"
	victimkubernetes "github.com/evictd/evictd/host/internal/cluster/victim/kubernetes"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/parts"
	podcri "github.com/evictd/evictd/host/internal/node/podsource/cri"
	"github.com/evictd/evictd/host/internal/node/podsource/listing"
	victimcri "github.com/evictd/evictd/host/internal/node/victim/cri"
)

// modeOptions configures a mode.
type modeOptions struct {
	config *Config
	// api is nil in a mode without an API server.
	api *kubeapi.Client
	// configMap is followed with an API server, nil for none.
	configMap *kubeapi.ConfigMap
	// ending holds the options for ending pods through the container runtime.
	ending  victimcri.Options
	journal loop.Journal
	known   podkubernetes.Store
	// restored holds the kills of a former host, dryRun reports whether kills are disabled now.
	restored []victim.Kill
	dryRun   func() bool
	// short reports whether it is known if the node is short of a resource, and whether it is.
	short func(resource string) (known, is bool)
	// wanted holds the labels and annotations that plugins want to see of pods.
	wanted *pods.Wanted
	// refused is called with a pod whose eviction the API server refuses permanently, and why.
	refused func(pod pods.Pod, why error)
}

// A mode finds and kills the pods of the node.
type mode struct {
	pods    *listing.Source
	killer  victim.Killer
	journal loop.Journal
	// restored holds the kills of a former host to reassess.
	restored []victim.Kill
	// cluster is nil in a mode without an API server.
	cluster *cluster
}

// modes holds the constructor of each Config.Mode. The error names a missing prerequisite.
var modes = map[string]func(modeOptions) (mode, error){
	config.ModeCRI: func(o modeOptions) (mode, error) {
		return mode{
			pods:     listing.New(podcri.New(o.ending.Lister, parts.Manifests(o.config, o.wanted)), o.ending.Log),
			killer:   victimcri.New(o.ending),
			journal:  o.journal,
			restored: o.restored,
		}, nil
	},
	config.ModeKubernetes: func(o modeOptions) (mode, error) {
		rules := parts.Rules(o.config)
		rules.Wanted = o.wanted
		o.api.Want(o.wanted)
		source, err := podkubernetes.New(o.api, o.ending.Lister, rules, o.known)
		if err != nil {
			o.ending.Log.Warn("pods that a former evictd saved are not used", "error", err)
		}
		of := &cluster{api: o.api, source: source, nodeName: o.config.NodeName, configMap: o.configMap, log: o.ending.Log}
		level := map[string]nodestatus.Level{config.NodeConditionsConditions: nodestatus.Conditions, config.NodeConditionsTaints: nodestatus.Taints}[o.config.NodeConditions]
		of.conditions = nodestatus.New(o.api, level, o.dryRun, o.ending.Log)
		killer := victimkubernetes.New(victimkubernetes.Options{
			Options: o.ending, API: o.api, NodeName: o.config.NodeName, Refused: o.refused, Settle: of.conditions.Settle, Journal: o.journal, DryRun: o.dryRun, Short: o.short, Pods: source.Pods,
			MayDelete: func(ctx context.Context, namespace string) bool {
				allowed, _, err := o.api.SelfSubjectAccessReview(ctx, "delete", "pods", "", namespace)
				return err == nil && allowed
			},
			OwnerEvent: func(about v1.ObjectReference, annotations map[string]string, message string) {
				of.events.Event(about, annotations, v1.EventTypeWarning, victim.ReasonPodEvicted, message)
			},
		})
		of.killer = killer
		return mode{pods: listing.New(source, o.ending.Log), killer: killer, journal: journal{o.journal, killer}, restored: killer.Restore(o.restored), cluster: of}, nil
	},
}

// A journal stores kills elsewhere than the rest.
type journal struct {
	loop.Journal
	kills victim.Journal
}

// SaveKill implements loop.Journal.
func (j journal) SaveKill(k victim.Kill) error { return j.kills.SaveKill(k) }

// RemoveKill implements loop.Journal.
func (j journal) RemoveKill(uid string) error { return j.kills.RemoveKill(uid) }

// A cluster holds the connection of a daemon beside a kubelet to the API server while it runs.
type cluster struct {
	api        *kubeapi.Client
	source     *podkubernetes.Source
	killer     *victimkubernetes.Killer
	conditions *nodestatus.Keeper
	// events is set before it runs.
	events *events.Recorder
	// configMap is nil if none is followed.
	configMap *kubeapi.ConfigMap
	nodeName  string
	log       *slog.Logger
}

// run watches pods and records evictions in the API server until ctx ends.
func (c *cluster) run(ctx context.Context) {
	klog.SetSlogLogger(c.log) // for what client-go logs without being given a logger
	var running sync.WaitGroup
	running.Go(func() { c.conditions.Run(ctx) })
	running.Go(func() { c.source.Run(ctx, c.log) })
	if c.configMap != nil {
		running.Go(func() { c.api.FollowConfigMap(ctx, *c.configMap) })
	}
	c.killer.Run(ctx)
	running.Wait()
}
