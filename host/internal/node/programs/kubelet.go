package programs

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/nodefs"
)

// A Kubelet is where the settings of one are.
type Kubelet struct {
	// Of names the kubelet, empty for files alone.
	Of string
	// File and Dir are its --config and --config-dir as paths of this process, either of which may be "". Flags, which beat them,
	// are its arguments.
	File, Dir string
	Flags     []string
}

// unknownKubelet is an fs.ErrNotExist.
type unknownKubelet struct{ text string }

func (e unknownKubelet) Error() string { return e.text + "; want the path of its file" }

// Is implements errors.Is.
func (unknownKubelet) Is(target error) bool { return target == fs.ErrNotExist }

// RunningKubelet finds the kubelet of a node: a process outside of pods with flags of a kubelet, or a program that has one inside,
// as k3s and MicroK8s do. Of several it is the one with this --root-dir. The error is fs.ErrNotExist if there is none, or more than
// one.
func RunningKubelet(node nodefs.FS, rootDir string) (Kubelet, error) {
	all, err := running(node, "kubelet", "kubelite", "hyperkube", "k3s")
	if err != nil {
		return Kubelet{}, err
	}
	var found []Kubelet
	for _, p := range all {
		if k, ok := p.kubelet(node); ok {
			found = append(found, k)
		}
	}
	if len(found) > 1 {
		others := func(k Kubelet) bool { return cmp.Or(flagOf(k.Flags, "root-dir"), "/var/lib/kubelet") != rootDir }
		found = slices.DeleteFunc(found, others)
	}
	slices.SortFunc(found, func(a, b Kubelet) int { return cmp.Compare(a.Of, b.Of) })
	switch len(found) {
	case 0:
		return Kubelet{}, unknownKubelet{"no kubelet runs here"}
	case 1:
		return found[0], nil
	default:
		return Kubelet{}, unknownKubelet{found[0].Of + " and " + found[1].Of + " both run"}
	}
}

// kubelet returns the kubelet that a process is or has inside.
func (p process) kubelet(node nodefs.FS) (s Kubelet, is bool) {
	name, args := p.name, p.args
	s.Of, s.Flags = "the kubelet in process "+p.pid, args[1:]
	k3s := name == "k3s-server" || name == "k3s-agent" || name == "k3s" && len(args) > 1 && (args[1] == "server" || args[1] == "agent")
	switch {
	case k3s:
		s = insideK3s(node, s)
	case strings.HasPrefix(name, "kubelite"):
		text, _ := input.ReadFileSoon(node.Path(flagOf(args, "kubelet-args-file")), maxFileBytes)
		s.Flags = strings.Fields(strings.ReplaceAll(string(text), `"`, ""))
	}
	inside := "" // the root directory of a kubelet in a container
	if ofNode, its := link(node, "1", "ns/mnt"), link(node, p.pid, "ns/mnt"); ofNode != "" && its != "" && its != ofNode {
		inside = "/proc/" + p.pid + "/root"
	}
	place := func(path string) string {
		if path == "" {
			return ""
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(cmp.Or(link(node, p.pid, "cwd"), "/"), path)
		}
		if own := node.Path(inside + path); inside != "" && exists(own) { // links out of its root do not
			return own
		}
		return node.Path(path)
	}
	s.File, s.Dir = place(cmp.Or(flagOf(s.Flags, "config"), s.File)), place(cmp.Or(flagOf(s.Flags, "config-dir"), s.Dir))
	of := []string{"kubeconfig", "bootstrap-kubeconfig", "container-runtime-endpoint", "pod-manifest-path"}
	return s, s.File+s.Dir != "" || k3s || slices.ContainsFunc(of, func(flag string) bool { return flagOf(s.Flags, flag) != "" })
}

// What k3s gives its kubelet by itself: before 1.32 by flags, then by a file.
const (
	k3sDropIns  = "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"
	k3sConfig   = "/etc/rancher/k3s/config.yaml"
	k3sDefaults = "--eviction-hard=imagefs.available<5%,nodefs.available<5%"
)

// insideK3s returns the kubelet in k3s, whose arguments are in s.
func insideK3s(node nodefs.FS, s Kubelet) Kubelet {
	in := Kubelet{Of: strings.Replace(s.Of, "the kubelet in", "k3s in", 1)}
	if exists(node.Path(k3sDropIns)) {
		in.Dir = k3sDropIns
	} else {
		in.Flags = []string{k3sDefaults}
	}
	files := []string{node.Path(k3sConfig)}
	more, _ := filepath.Glob(node.Path(k3sConfig+".d") + "/*.yaml")
	var given []string
	for _, file := range append(files, more...) {
		var config struct {
			Args any `json:"kubelet-arg"`
			More any `json:"kubelet-arg+"`
		}
		text, _ := input.ReadFileSoon(file, maxFileBytes) // most have none
		if doc, _, err := input.YAML(text, "a mapping"); err == nil {
			_, _ = input.Decode(doc, &config) // a k3s that cannot read it does not start
		}
		if config.Args != nil {
			given = texts(config.Args)
		}
		given = append(given, texts(config.More)...)
	}
	for i, arg := range s.Flags {
		if value, ok := strings.CutPrefix(arg, "--kubelet-arg="); ok {
			given = append(given, value)
		} else if arg == "--kubelet-arg" && i+1 < len(s.Flags) {
			given = append(given, s.Flags[i+1])
		}
	}
	for _, arg := range given {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		in.Flags = slices.DeleteFunc(in.Flags, func(former string) bool { return strings.HasPrefix(former, "--"+name+"=") })
		in.Flags = append(in.Flags, "--"+strings.TrimLeft(arg, "-"))
	}
	return in
}

// texts returns a text, or a list of them.
func texts(value any) (all []string) {
	if one, ok := value.(string); ok {
		return []string{one}
	}
	list, _ := value.([]any)
	for _, one := range list {
		all = append(all, fmt.Sprint(one))
	}
	return all
}

// flagOf returns the last value of a flag, empty if it is not given.
func flagOf(args []string, name string) (value string) {
	for _, v := range FlagsOf(args, name, false) {
		value = v
	}
	return value
}

// FlagsOf returns all values of a flag. One of a switch is "true" without a value.
func FlagsOf(args []string, name string, isSwitch bool) (all []string) {
	for i, arg := range args {
		given, value, joined := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") || given != name:
			continue
		case isSwitch && !joined:
			value = "true"
		case !joined && i+1 < len(args):
			value = args[i+1]
		}
		all = append(all, strings.Trim(value, `"'`))
	}
	return all
}
