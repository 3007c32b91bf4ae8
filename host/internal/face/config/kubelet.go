package config

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/beside"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/ground/quantity"
	"github.com/evictd/evictd/host/internal/node/programs"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/typo"
)

// Kubelet holds the parts of a kubelet's configuration that a program beside it must know. They do
// not become evictd's configuration: see Flags for the file that does.
type Kubelet struct {
	Thresholds []policy.Threshold
	Reserved   beside.Reserved
	// Config holds the keys that evictd's configuration has too, with the kubelet's defaults.
	Config Config
}

// LoadKubelet reads the file of a kubelet, or a response of its /configz, the drop-ins and the flags of s. Links below the root of
// node are followed as on the node. The error joins all problems, one per line.
func LoadKubelet(node nodefs.FS, s programs.Kubelet) (Kubelet, error) {
	c := blank()
	for _, f := range kubeletFields() {
		if f.kubelets != "" {
			f.parse(f.in(reflect.ValueOf(&c).Elem()), f.kubelets)
		}
	}
	doc, ls, errs, err := kubeletFiles{node: node, file: s.File, dir: s.Dir, configz: true}.lay(&c)
	if err != nil {
		return Kubelet{}, err
	}
	flags, given := kubeletFlagsIn(s.Flags), &layer{keys: map[string]string{}}
	for _, err := range layKubelet(&c, given, flags) {
		errs = append(errs, given.named(err))
	}
	ls = append(ls, given)
	if doc == nil {
		doc = object{}
	}
	maps.Copy(doc, flags)
	mergeHard(&c)
	_ = complete(&c, func() (string, error) { return "", nil }) // the file has no name of a node
	thresholds, err := c.Thresholds()
	reserved, more := reserves(doc)
	for _, err := range append(split(err), more...) {
		errs = append(errs, ls.blame(err))
	}
	return Kubelet{Thresholds: thresholds, Reserved: reserved, Config: c}, report(errs)
}

// Beside returns a finding for each key that c has too, with another value, and the line that gives
// evictd the kubelet's. A text says where something of the node is: another one is to be fixed where
// it has an effect. Thresholds are left out: beside.Compare has them by signal.
func (k *Kubelet) Beside(c *Config) (all []beside.Finding) {
	for _, text := range k.Config.UnknownKeys {
		all = append(all, beside.Finding{Signal: "unknown key", About: beside.Setting, Text: text, Fix: true})
	}
	gates := k.Config
	gates.Compatibility, gates.KubeletVersion = c.Compatibility, c.KubeletVersion
	sameGates := !slices.ContainsFunc(features, func(name string) bool { return c.Feature(name) != gates.Feature(name) })
	for _, f := range tables[reflect.TypeFor[Config]()] {
		if f.kubelet == "" || f.beside == "signals" || f.name == "featureGates" && sameGates {
			continue
		}
		value := f.in(reflect.ValueOf(&k.Config).Elem()).Interface()
		ours, theirs := shown(f.in(reflect.ValueOf(c).Elem()).Interface()), shown(value)
		inherited := f.name == "imageEndpoint" && c.ImageEndpoint == c.RuntimeEndpoint && k.Config.ImageEndpoint == k.Config.RuntimeEndpoint
		if ours == theirs || place(c.Node(), ours, c.RootDir) == place(c.Node(), theirs, "/") || f.beside == "detected" && (ours == "" || theirs == "") || inherited {
			continue
		}
		if path, isSocket := strings.CutPrefix(theirs, "unix://"); isSocket {
			value = "unix://" + strings.TrimSuffix(c.RootDir, "/") + path
		}
		finding := beside.Finding{Signal: f.kubelet, About: beside.Setting, Text: fmt.Sprintf("evictd has %s, the kubelet %s", cmp.Or(ours, "none"), cmp.Or(theirs, "none"))}
		line, _ := json.Marshal(value) // a field's value always has one
		finding.Fix = f.typ.Kind() == reflect.String && (f.beside != ModeCRI || c.Mode == ModeCRI)
		switch {
		case f.name == "cgroupsPerQOS" && c.CgroupsPerQOS && c.Source == SourceNative:
			finding.Fix = true
			finding.Text += ": " + WithoutPodCgroups + "; want true in the kubelet's file"
		case finding.Fix:
			finding.Text += fmt.Sprintf("; want in evictd's file: %s: %s", f.name, line)
		default:
			finding.Text += fmt.Sprintf("; to match, set in evictd's file: %s: %s", f.name, line)
		}
		all = append(all, finding)
	}
	return all
}

// knownKeys holds the keys of a KubeletConfiguration of Kubernetes 1.38 or before, separated by spaces.
//
//go:embed kubeletkeys.txt
var knownKeys string

// maxUnknown bounds the unknown keys that are named of a file.
const maxUnknown = 10

// unknownKeys returns what is wrong with keys of a kubelet's file that no kubelet knows. It logs and
// ignores them in its --config. Of a drop-in it takes a key in another case, which evictd does not.
func unknownKeys(l *layer, doc object) (all []string) {
	known := strings.Fields(knownKeys)
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		if slices.Contains(known, key) || len(all) == maxUnknown {
			continue
		}
		want := "a key of KubeletConfiguration"
		if near := typo.Nearest(key, known); near != "" {
			want = strconv.Quote(near)
		} else if validSignal(key) {
			want = "it in evictionHard or evictionSoft"
		}
		err := l.named(invalid(steps([]string{key}), "is not used here: Kubernetes up to %s has no such key; want %s", Kubernetes138, want))
		all = append(all, printable.Clip(err).Error())
	}
	return all
}

// shown formats a value without the brackets of lists and mappings.
func shown(value any) string { return strings.Trim(strings.TrimPrefix(text(value), "map["), "[]") }

// place returns the place on the node that a text names. Sockets are seen from below.
func place(node nodefs.FS, text, below string) string {
	if path, isSocket := strings.CutPrefix(text, "unix://"); isSocket {
		text = strings.TrimPrefix(path, strings.TrimSuffix(below, "/"))
	}
	if !filepath.IsAbs(text) {
		return text
	}
	return node.Real(strings.Replace(text, "/var/run/", "/run/", 1)) // a link everywhere
}

// unwrap extracts the configuration from a response of /configz. Before about v1.30 it lacks
// apiVersion and kind.
func unwrap(data []byte) []byte {
	var answer struct {
		Kubelet object `json:"kubeletconfig"`
	}
	if json.Unmarshal(data, &answer) != nil || answer.Kubelet == nil {
		return data
	}
	for key, value := range map[string]string{"apiVersion": kubeletVersion, "kind": kubeletKind} {
		if answer.Kubelet[key] == nil {
			answer.Kubelet[key] = json.RawMessage(strconv.Quote(value))
		}
	}
	inner, err := json.Marshal(answer.Kubelet)
	if err != nil {
		return data
	}
	return inner
}

// reserves reads kubeReserved, systemReserved and, with the policy Static, reservedMemory, which
// evictd itself does not use.
func reserves(doc object) (r beside.Reserved, errs []error) {
	r.Memory, r.Storage = *resource.NewQuantity(0, resource.BinarySI), *resource.NewQuantity(0, resource.BinarySI)
	add := func(to *resource.Quantity, key, name string, amounts map[string]string) {
		if amounts[name] == "" {
			return
		}
		q, err := quantity.Parse(amounts[name])
		if err != nil {
			errs = append(errs, invalid([]string{key, printable.Key(name)}, "%q: %w; want a quantity such as \"500Mi\"", printable.Shown(amounts[name]), err))
			return
		}
		to.Add(q)
	}
	var kube resource.Quantity
	for _, key := range []string{"kubeReserved", "systemReserved"} {
		var amounts map[string]string
		if doc[key] == nil || json.Unmarshal(doc[key], &amounts) != nil {
			continue
		}
		add(&r.Memory, key, "memory", amounts)
		add(&r.Storage, key, "ephemeral-storage", amounts)
		if key == "systemReserved" {
			r.System = amounts
		} else {
			kube = r.Memory.DeepCopy()
		}
	}
	var perNode []struct{ Limits map[string]string }
	if string(doc["memoryManagerPolicy"]) == `"Static"` && doc["reservedMemory"] != nil && json.Unmarshal(doc["reservedMemory"], &perNode) == nil {
		r.Static = resource.NewQuantity(0, resource.BinarySI)
		for _, node := range perNode {
			add(r.Static, "reservedMemory", "memory", node.Limits)
		}
		r.Static.Sub(kube)
	}
	return r, errs
}
