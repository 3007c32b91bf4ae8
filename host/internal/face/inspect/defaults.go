package inspect

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// A distribution is a kubelet's configuration in places of its own, which is there if one of them is.
type distribution struct {
	name string
	// file and dir are its --config and --config-dir, flags is a file with its flags.
	file, dir, flags string
	// home is a directory that it has, without what its flags for hard thresholds are in its program.
	home, without string
}

// k3s and RKE2 have files in place of flags from 1.32 on. AKS passes the values of its node pools and of
// Karpenter by flags.
var distributions = []distribution{
	{"k3s", "", "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d", "/etc/rancher/k3s/config.yaml", "/var/lib/rancher/k3s/agent", "imagefs.available<5%,nodefs.available<5%"},
	{"RKE2", "", "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d", "/etc/rancher/rke2/config.yaml", "/var/lib/rancher/rke2/agent", "imagefs.available<5%,nodefs.available<5%"},
	{"AKS", "/etc/default/kubeletconfig.json", "", "/etc/default/kubelet", "", ""},
}

// hardFlag matches the flag of hard thresholds in a file.
var hardFlag = regexp.MustCompile(`eviction-hard[=:]\s*["']?([^"'\s]*)`)

// maxFlags bounds a file with flags, in bytes.
const maxFlags = 1 << 20

// defaults reports resources of which a kubelet has thresholds by default, and evictd, or the kubelet of a
// distribution, has none. Memory is among the warnings of the configuration.
func defaults(c *config.Config, of func() (eviction.Layout, error)) (f Findings) {
	layout, err := of()
	separate := err == nil && layout != eviction.LayoutShared
	own := slices.DeleteFunc(lacking(c.EvictionHard, c.EvictionSoft, separate), func(s eviction.Signal) bool { return s == eviction.MemoryAvailable })
	if len(own) > 0 {
		f.add(Advice, "no threshold of %s is in force: no pod of this node is evicted when they run short; want %s, or 0%% if that is meant", list(own), wanted(own))
	}
	if c.BesideKubelet+c.BesideKubeletDir != "" {
		if _, err := config.LoadKubelet(c.Node(), c.BesideKubelet, c.BesideKubeletDir); err == nil {
			return f // both are compared
		}
	}
	for _, d := range distributions {
		where, hard, soft := d.thresholds(c.Node())
		if lacks := lacking(hard, soft, separate); where != "" && len(lacks) > 0 {
			f.add(Advice, "the kubelet of %s (%s) has no threshold of %s: without evictd no pod of this node is evicted when they run short; want for it %s", d.name, where, list(lacks), wanted(lacks))
		}
	}
	return f
}

// thresholds returns where the hard and soft thresholds of a distribution's kubelet are, by signal. where is
// empty if it is not there.
func (d distribution) thresholds(node nodefs.FS) (where string, hard, soft map[string]string) {
	var file, dir string
	if path := node.Path(d.file); d.file != "" && is(path) {
		where, file = d.file, path
	}
	if path := node.Path(d.dir); d.dir != "" && is(path) {
		where, dir = d.dir, path
	}
	k, err := config.LoadKubelet(node, file, dir)
	if err != nil { // what is wrong there is the kubelet's
		return "", nil, nil
	}
	hard, soft = k.Config.EvictionHard, k.Config.EvictionSoft
	text, _ := input.ReadFileSoon(node.Path(d.flags), maxFlags) // most have none
	flags := hardFlag.FindAllStringSubmatch(string(text), -1)
	switch {
	case len(flags) > 0: // as in the kubelet the last one counts
		return d.flags, signalsOf(flags[len(flags)-1][1]), soft
	case where == "" && d.home != "" && is(node.Path(d.home)):
		return d.home, signalsOf(d.without), soft
	}
	return where, hard, soft
}

func is(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// signalsOf returns the signals of a flag.
func signalsOf(flag string) map[string]string {
	signals := map[string]string{}
	for pair := range strings.SplitSeq(flag, ",") {
		name, value, _ := strings.Cut(pair, "<")
		signals[name] = value
	}
	return signals
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
