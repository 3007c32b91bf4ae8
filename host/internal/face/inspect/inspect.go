// Package inspect probes this node for everything that evictd needs, for evictctl check and the
// daemon. The daemon refuses to start on fatal findings and shows the rest in /status. The
// probes run the daemon's code and change nothing on the node.
package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/node/programs"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
)

// deadline bounds each probe, except those that call an API server or start plugins.
const deadline = 5 * time.Second

// A Level is the severity of a finding.
type Level string

// The levels of findings.
const (
	// Fatal prevents the daemon from starting.
	Fatal Level = "fatal"
	// Error means that some pods cannot be evicted, or some thresholds have no effect.
	Error Level = "error"
	// Warning marks settings that are valid but probably unintended.
	Warning Level = "warning"
	// Advice is for a node that works as it is.
	Advice Level = "advice"
)

// A Finding is one problem: the field or file, its value, and what is expected.
type Finding struct {
	// Probe names the probe that found it.
	Probe string `json:"probe"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	// NoEvent marks a kubelet, or a file of it, that was not found: it is in the log and /status alone.
	NoEvent bool `json:"-"`
}

func (f Finding) isError() bool { return f.Level == Fatal || f.Level == Error }

// Findings are in the order of the probes.
type Findings []Finding

func (f *Findings) add(l Level, format string, args ...any) {
	*f = append(*f, Finding{Level: l, Text: fmt.Sprintf(format, args...)})
}

// addAll adds errors, splitting joined ones. It ignores nil errors.
func (f *Findings) addAll(l Level, errs ...error) {
	for _, err := range errs {
		if err != nil {
			f.add(l, "%v", err)
		}
	}
}

// Texts returns the texts of findings of some levels.
func (f Findings) Texts(of ...Level) (texts []string) {
	for _, one := range f {
		if slices.Contains(of, one.Level) {
			texts = append(texts, one.Text)
		}
	}
	return texts
}

// Options configures an inspection.
type Options struct {
	Config *config.Config
	// Version is the build of evictd, for plugins.
	Version string
	// StartPlugins starts the plugins with the daemon's confinement, asks them for the signals of
	// all thresholds, and ends them.
	StartPlugins bool
	// Falls returns the fastest falls of signals that are on record in a state directory. It may be
	// nil.
	Falls func(stateDir string) map[eviction.Signal]int64
	// Holder returns the owner, see rundir.ID, that writes records in a state directory, empty if there is
	// none. It may be nil.
	Holder func(stateDir string) string

	// Listed returns the pods that a daemon has listed (podsource/kubernetes.Source), nil if it lists
	// none. Without it the inspection lists them.
	Listed func() (all []*v1.Pod, listed bool, err error)
	// Active lists the running pods with the manifests that a daemon has read. It is nil without them:
	// then the inspection reads all manifests.
	Active func(ctx context.Context) (pods.Snapshot, error)

	// left holds the probes of former inspections that still hang: they are not repeated meanwhile.
	left *hang.Left
	// begun has the filesystem of each directory at the first inspection.
	begun map[string]string
}

// A probe checks one prerequisite of the daemon.
type probe struct {
	name string
	// daemon is the interval at which the daemon repeats it, 0 if it does not. It notices other problems
	// by itself, in each pass and by watching plugins, cgroups and pods.
	daemon time.Duration
	// requests: it sends requests to the API server, at a pace of its own.
	requests bool
	deadline time.Duration
	try      func(ctx context.Context, n *node, f *Findings)
}

// apiServer is the probe that sends requests to the API server.
const apiServer = "API server"

// The probes whose findings are events too.
const (
	KubeletConfiguration = "kubelet's configuration"
	Filesystems          = "filesystems"
)

var probes = []probe{
	{"run directory", 0, false, deadline, tryRunDir},
	{"state directory", watchEvery, false, deadline, tryStateDir},
	{"addresses", 0, false, deadline, tryListen},
	{"plugin directory", watchEvery, false, deadline, tryPluginDir},
	{"container runtime", watchEvery, false, 2 * deadline, tryRuntime},
	{"layout of the filesystems", watchEvery, false, deadline, tryLayout},
	{"capacity", watchEvery, false, deadline, tryCapacity},
	{"thresholds", 0, false, deadline, tryThresholds},
	{"default thresholds", 0, false, deadline, func(_ context.Context, n *node, f *Findings) { *f = defaults(n.c, n.layout) }},
	{"kubelet's directories", watchOften, false, deadline, tryPodDirs},
	{"directories of no pod", 0, false, deadline, func(ctx context.Context, n *node, f *Findings) {
		if n.hasThreshold(onFilesystem(eviction.NodeFs)) && n.c.Source == config.SourceNative && n.running != nil {
			*f = orphans(ctx, n.c, n.runtime())
		}
	}},
	{Filesystems, watchOften, false, deadline, tryFilesystems},
	{"cgroups", 0, false, deadline, tryCgroups},
	{"plugins", 0, false, deadline, tryPluginFiles},
	{"plugins' figures", 0, false, time.Minute, tryPlugins},
	{apiServer, 0, true, apiTimeout + deadline, tryAPI},
	{"pod manifests", 0, false, deadline, tryManifests},
	{"pods of a kubelet", watchEvery, false, deadline, tryKubeletPods},
	{"summary", 0, false, deadline, trySummary},
	{KubeletConfiguration, watchEvery, false, 2 * deadline, tryBeside},
	{"other killers", watchEvery, false, deadline, func(_ context.Context, n *node, f *Findings) {
		for _, k := range programs.Killers(n.fs) {
			f.add(Warning, "%s without an eviction: no event, no grace period, and the container starts again; want it stopped, or %s", k.Does, k.Else)
		}
	}},
	{"CPU", watchEvery, false, deadline, tryCPU},
	{"locked memory", watchEvery, false, deadline, tryLockedMemory},
	{"protected memory", 0, false, deadline, tryProtection},
	{"protected cache", watchEvery, false, deadline, tryProtectedCache},
}

// Run runs all probes in parallel.
func Run(ctx context.Context, o Options) Findings {
	o.left, o.begun = new(hang.Left), map[string]string{}
	return run(ctx, o, func(probe) bool { return true })
}

func run(ctx context.Context, o Options, wanted func(probe) bool) (all Findings) {
	n := newNode(ctx, o)
	defer n.close()
	found := make([]Findings, len(probes))
	var running sync.WaitGroup
	for i, p := range probes {
		if wanted(p) {
			running.Go(func() { found[i] = p.run(ctx, n) })
		}
	}
	running.Wait()
	for i, p := range probes {
		for _, f := range found[i] {
			f.Probe = p.name
			if strings.Contains(f.Text, unix.EACCES.Error()) && enforcesSELinux(n.fs) {
				f.Text += "; if SELinux has refused it (ausearch -m avc), want evictd with the type spc_t"
			}
			all = append(all, f)
		}
	}
	return all
}

// run abandons a probe that is late, as on a filesystem that hangs.
func (p probe) run(ctx context.Context, n *node) Findings {
	limited, cancel := context.WithTimeout(ctx, p.deadline)
	defer cancel()
	// Most calls end with the context, and with a better error than ErrHangs.
	late, stop := context.WithTimeout(ctx, p.deadline+time.Second)
	defer stop()
	found, err := hang.DoAs(n.left, p.name, late.Done(), func() (f Findings, err error) {
		p.try(limited, n, &f)
		return f, nil
	})
	switch {
	case ctx.Err() != nil:
		return Findings{{Level: Error, Text: fmt.Sprintf("%s: %v", p.name, ctx.Err())}}
	case err != nil:
		found.add(Error, "%s: no answer within %v: %v; want filesystems that answer", p.name, p.deadline, err)
	}
	return found
}

// away reports whether a server does not answer at all, which that server's own probe reports.
func away(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
}
