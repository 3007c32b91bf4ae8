package faults

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/test/fakes/fakecri"
)

// The ways in which an input fails.
const (
	slow6     = "slow 6 s"
	slow20    = "slow 20 s"
	hangs     = "hangs"
	errs      = "errors"
	oneItem   = "errors for one item"
	half      = "half"
	empty     = "empty"
	twice     = "an item twice"
	old       = "out of date by a minute"
	tooLarge  = "too large"
	fromStart = "hangs from the start"
)

var inputFaults = []string{slow6, slow20, hangs, errs, oneItem, half, empty, twice, old, tooLarge}

// localLimits stands for a pod over a limit of its own. The others are names of signals.
const localLimits = "local limits"

var inputSignals = []string{"memory.available", "nodefs.available", "pid.available", localLimits}

// The ways in which a cell of inputs may end, besides evicted.
const (
	notRead     = "not read"
	notPossible = "not possible"
	asKubelet   = "as the kubelet"
)

const (
	// inputSlack is less than what a slow input waits for, which must not pass for a machine
	// that runs many worlds at once.
	inputSlack = 2500 * time.Millisecond
	// quick is the monitoringInterval, so that a cell of a signal that is not watched is short.
	quick = 2 * time.Second
)

// An input is read before evictd decides which pod goes.
type input struct {
	name string
	// methods are the calls that fail, of an input that the container runtime gives.
	methods []fakecri.Method
	// reads has the signals whose decision reads the input.
	reads []string
	// never says why a fault is not possible.
	never map[string]string
	// figures is the signal of which the input has the pods' figures, and unsure has the faults
	// that hide those of all pods from everyone. Then priority alone may count.
	figures string
	unsure  []string
	// waits has the bounds for an answer that is late, by signal.
	waits map[string]wait
	// hidden says why no fault of the input can be made up for under a signal.
	hidden map[string]string
	// hiddenBy says the same of one fault, by fault and signal, and kubelets why evictd waits or has
	// no victim then, as a kubelet.
	hiddenBy, kubelets map[string]string
	// atStart: the input is read once, at the start.
	atStart bool
	// serve, if not nil, prepares a world that has the input.
	serve func(w *inputWorld)
	// fail makes the input fail from now on.
	fail func(w *inputWorld)
}

// A wait is a bound and its reason.
type wait struct {
	bound time.Duration
	why   string
}

// Reclaim asks the runtime before a pod goes, as the kubelet does, which waits two minutes for each
// answer.
var (
	reclaimWaits = map[string]wait{
		"nodefs.available": {25 * time.Second, "25 s, reclaim waits"}, localLimits: {15 * time.Second, "15 s"},
	}
	measureWaits = map[string]wait{"memory.available": {6 * time.Second, "6 s, Measure waits"}}
	summaryWaits = map[string]wait{
		"memory.available": {11 * time.Second, "11 s"}, "pid.available": {13 * time.Second, "11 s + interval"},
		"nodefs.available": {25 * time.Second, "25 s"}, localLimits: {25 * time.Second, "25 s"},
	}
)

const (
	oneValue  = "one value"
	fewBytes  = "a few bytes"
	noList    = "it is read for one item at a time"
	ownFigure = "the kernel's figures are of now"
)

var (
	everySignal = inputSignals
	disks       = []string{"nodefs.available", localLimits}
)

func inputs() []input {
	only := func(why string, faults ...string) map[string]string {
		never := map[string]string{}
		for _, f := range faults {
			never[f] = why
		}
		return never
	}
	return []input{
		{name: "pod sandboxes", methods: []fakecri.Method{fakecri.ListPodSandbox}, reads: everySignal, waits: reclaimWaits, fail: failRuntime},
		{name: "containers", methods: []fakecri.Method{fakecri.ListContainers}, reads: everySignal, waits: reclaimWaits, fail: failRuntime},
		{name: "runtime", methods: []fakecri.Method{fakecri.Any}, reads: everySignal, waits: reclaimWaits, kubelets: map[string]string{slow6 + "nodefs.available": "after reclaim, which takes longer than a minute"}, fail: failRuntime},
		{name: "container status", methods: []fakecri.Method{fakecri.ContainerStatus}, reads: []string{"nodefs.available"}, waits: reclaimWaits, fail: failRuntime, never: only(noList, half, empty, twice, old)},
		{
			name: "container stats", methods: []fakecri.Method{fakecri.ListContainerStats}, reads: disks, waits: map[string]wait{localLimits: reclaimWaits[localLimits]}, fail: failRuntime,
			hiddenBy: map[string]string{old + localLimits: "the first pod with a limit is looked at within a minute, as the kubelet looks at its volumes"},
		},
		{name: "images", methods: []fakecri.Method{fakecri.ListImages, fakecri.ImageStatus}, reads: []string{"nodefs.available"}, waits: reclaimWaits, fail: failRuntime, never: only("an image is no pod", old)},
		{name: "image filesystem", methods: []fakecri.Method{fakecri.ImageFsInfo}, reads: []string{"nodefs.available"}, waits: reclaimWaits, fail: failRuntime, never: merged(only("it does not change with the pods", half, oneItem, old), only(fewBytes, tooLarge))},
		{name: "cgroup driver", methods: []fakecri.Method{fakecri.RuntimeConfig}, reads: []string{"memory.available", "pid.available"}, fail: failRuntime, never: merged(only(oneValue, oneItem, half, twice, old), only(fewBytes, tooLarge)), atStart: true},
		{name: "pod cgroups", reads: everySignal, fail: failCgroups, waits: measureWaits, figures: "memory.available", unsure: []string{slow6, slow20, hangs, errs, empty, oneItem, half}, never: merged(only("a file has one figure", twice, tooLarge), only(ownFigure, old))},
		{name: "manifests", reads: everySignal, fail: failManifests, never: only("a pod that never had a manifest is not evictd's", old)},
		{name: "summary", reads: everySignal, serve: serveSummary, fail: failSummary, waits: summaryWaits, kubelets: summaryKubelets()},
		{
			name: "API server", reads: everySignal, serve: serveAPI, fail: failAPI,
			never: merged(only("a pod that the API server does not have is deleted", half, empty), only("no pod runs before the API server has it", old)),
		},
		{
			name: "kubelet files", reads: disks, fail: failFiles, figures: "nodefs.available", unsure: []string{slow6, slow20, hangs, errs, empty, oneItem, half}, hidden: map[string]string{localLimits: "the files are the figure"},
			never: merged(only("a file has one name", twice), only(ownFigure, old), only("a directory is read in parts", tooLarge)),
		},
	}
}

// summaryKubelets says what follows from the kubelet's own figures alone.
func summaryKubelets() map[string]string {
	out := map[string]string{}
	for _, signal := range disks {
		for _, fault := range []string{hangs, errs, empty, tooLarge} {
			out[fault+signal] = "no pod goes by disks without its figures"
		}
	}
	for _, fault := range []string{oneItem, half} {
		out[fault+localLimits] = "a pod without figures is over no limit"
	}
	out[old+localLimits] = "the first pod with a limit is looked at within a minute"
	return out
}

// hangsFromStart reports whether the input also hangs before evictd starts.
func (in *input) hangsFromStart() bool {
	return in.methods != nil && slices.Contains(in.reads, "memory.available")
}

func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// An inputCell is one fault of one input under one pressure, and how it must end.
type inputCell struct {
	input   input
	fault   string
	signal  string
	outcome string
	why     string // not possible, or what the bound is
	bound   time.Duration
	// victim goes, or for some faults lowly.
	victim  string
	victims []string
}

func inputCells() []inputCell {
	var all []inputCell
	for _, in := range inputs() {
		for _, f := range inputFaults {
			for _, s := range inputSignals {
				all = append(all, newInputCell(in, f, s))
			}
		}
		if in.hangsFromStart() {
			all = append(all, newInputCell(in, fromStart, "memory.available"))
		}
	}
	return all
}

func newInputCell(in input, fault, signal string) inputCell {
	c := inputCell{input: in, fault: fault, signal: signal, outcome: evicted, victim: greedy}
	switch signal {
	case "pid.available":
		c.victim = lowly // priority counts before use
		c.bound, c.why = 3*time.Second+quick, "3 s + interval"
	case "memory.available":
		c.bound, c.why = 3*time.Second, "3 s"
	default:
		c.bound, c.why = 12*time.Second, "12 s"
	}
	if waits, ok := in.waits[signal]; ok && slices.Contains([]string{slow6, slow20, hangs, fromStart}, fault) || in.name == "summary" && ok {
		c.bound, c.why = waits.bound, waits.why
	}
	c.victims = []string{c.victim}
	if in.figures == signal && slices.Contains(in.unsure, fault) {
		c.victims = []string{greedy, lowly}
	}
	switch why := cmp.Or(in.never[fault], in.hidden[signal], in.hiddenBy[fault+signal]); {
	case why != "":
		c.outcome, c.why = notPossible, why
	case in.kubelets[fault+signal] != "":
		c.outcome, c.why = asKubelet, in.kubelets[fault+signal]
	case !slices.Contains(in.reads, signal):
		c.outcome = notRead
	}
	return c
}

func (c *inputCell) name() string {
	return fmt.Sprintf("%s/%s/%s", c.input.name, c.fault, c.signal)
}

// tried reports whether a world runs the cell: of an input that a signal does not read, one fault
// shows it.
func (c *inputCell) tried() bool {
	return c.outcome == evicted || c.outcome == notRead && c.fault == hangs
}

func (c *inputCell) text() string {
	if c.outcome == notRead {
		return notRead
	}
	return c.outcome + "; " + c.why
}
