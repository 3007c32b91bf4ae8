package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// Validate reports everything wrong with c, one line each with the field, its value and what is
// expected.
func (c *Config) Validate() error { return errors.Join(problems(c)...) }

func problems(c *Config) []error {
	var errs []error
	each(nil, reflect.ValueOf(c).Elem(), func(path []string, f field, at reflect.Value) {
		// Unless set, the image endpoint repeats the other one, which was already reported.
		if f.name != "imageEndpoint" || c.ImageEndpoint != c.RuntimeEndpoint {
			errs = append(errs, f.check(path, at)...)
		}
	})
	_, err := c.Thresholds()
	errs = append(errs, split(err)...)
	errs = append(errs, assignProblems(c.Assign)...)
	errs = append(errs, split(policy.Split(c.Assigned, c.PossibleLayouts()...))...)
	for _, name := range slices.Sorted(maps.Keys(c.Plugins)) {
		if !validPluginName(name) {
			errs = append(errs, invalid(steps([]string{"plugins", name}), `want the file name of a plugin such as "memory", without "/", a leading "." or the ending ".tmp"`))
		}
		each([]string{"plugins", name}, reflect.ValueOf(c.Plugins[name]), func(path []string, f field, at reflect.Value) {
			errs = append(errs, f.check(path, at)...)
		})
	}
	return errs
}

// assignProblems returns invalid signals, capabilities and plugin names. Whether the plugin exists
// and offers the capability is known only at run time.
func assignProblems(assign map[eviction.Signal]map[string]string) []error {
	var errs []error
	for _, s := range slices.Sorted(maps.Keys(assign)) {
		if !validSignal(string(s)) {
			errs = append(errs, invalid(steps([]string{"assign", string(s)}), "want %s", wantSignal))
		}
		for _, word := range slices.Sorted(maps.Keys(assign[s])) {
			at := steps([]string{"assign", string(s), word})
			if eviction.CapabilityNamed(word) == 0 {
				errs = append(errs, invalid(at, "unknown capability, want one of %s", strings.Join(eviction.AllCapabilities().Names(), ", ")))
			} else if plugin := assign[s][word]; !validPluginName(plugin) {
				errs = append(errs, wrong(at, strconv.Quote(plugin), kinds["assignment"].wants[2]))
			}
		}
	}
	return errs
}

// daemonProblems returns the problems of a daemon, which has no pods, summary or filesystem layout
// to contribute, and must not listen publicly. Validate does not report these, for the sake of
// embedding programs.
func daemonProblems(c *Config) []error {
	var errs []error
	if c.MetricsElsewhere() && c.Mode != ModeKubernetes {
		errs = append(errs, fmt.Errorf("metricsBindAddress: %q: want an address of the loopback device, as mode %q has no API server to ask who may read it", c.MetricsBindAddress, c.Mode))
	}
	if (c.TLSCertFile == "") != (c.TLSPrivateKeyFile == "") {
		errs = append(errs, errors.New("tlsCertFile and tlsPrivateKeyFile: want both or neither"))
	}
	if !c.UsesSummary() {
		return errs
	}
	want := func(name string) string {
		summary, _ := whole.below("summary")
		f, _ := summary.below(name)
		return f.want()
	}
	if c.Summary.Kubeconfig == "" {
		errs = append(errs, fmt.Errorf("summary.kubeconfig: not given, want %s, as signals are assigned to the kubelet's summary", want("kubeconfig")))
	}
	thresholds, _ := c.Thresholds() // an error was reported
	onDisk := slices.IndexFunc(thresholds, func(t policy.Threshold) bool { b, _ := eviction.Builtin(t.Signal); return b.Filesystem != "" })
	if onDisk >= 0 && c.Summary.Layout == "" && c.Assigned(eviction.NodeFsAvailable, eviction.CanObserve) == SourceSummary {
		errs = append(errs, fmt.Errorf("summary.layout: not given, want %s, as there is a threshold of %s and a summary does not tell", want("layout"), thresholds[onDisk].Signal))
	}
	return errs
}

// CheckReload returns why b cannot replace a while evictd runs. Then no part of b may be applied.
func CheckReload(a, b Config) error {
	changed := changed(a, b)
	if a.Source == b.Source && b.UsesSummary() && !a.UsesSummary() { // its plugin is made at the start
		changed = append(changed, `assign (the first signal of "summary")`)
	}
	if len(changed) == 0 {
		return nil
	}
	return fmt.Errorf("%s changed, which needs a restart; nothing was applied", strings.Join(changed, ", "))
}

// changed returns the differing fields that cannot change while evictd runs: what they name is
// open, locked or listened on.
func changed(a, b Config) []string {
	var changed []string
	for _, f := range tables[reflect.TypeFor[Config]()] {
		from, to := f.in(reflect.ValueOf(a)), f.in(reflect.ValueOf(b))
		empty := f.typ.Kind() == reflect.Map && from.Len()+to.Len() == 0
		if f.fixed && !empty && !reflect.DeepEqual(from.Interface(), to.Interface()) {
			changed = append(changed, f.name)
		}
	}
	return changed
}
