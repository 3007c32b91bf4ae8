package config

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/beside"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/ground/quantity"
)

// Kubelet holds the parts of a kubelet's configuration that a program beside it must know. They do
// not become evictd's configuration: see Flags for the file that does.
type Kubelet struct {
	Thresholds []policy.Threshold
	Reserved   beside.Reserved
	// CgroupsPerQOS: pods have cgroups.
	CgroupsPerQOS bool
}

// LoadKubelet reads the file of a kubelet, or a response of its /configz, and the drop-ins in dir,
// either of which may be "". The error joins all problems, one per line.
func LoadKubelet(file, dir string) (Kubelet, error) {
	c := blank()
	doc, ls, errs, err := kubeletFiles{file: file, dir: dir, configz: true}.lay(&c)
	if err != nil {
		return Kubelet{}, err
	}
	mergeHard(&c)
	thresholds, err := c.Thresholds()
	reserved, more := reserves(doc)
	for _, err := range append(split(err), more...) {
		errs = append(errs, ls.blame(err))
	}
	return Kubelet{Thresholds: thresholds, Reserved: reserved, CgroupsPerQOS: c.CgroupsPerQOS}, report(errs)
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
			errs = append(errs, fmt.Errorf("%s[%q]: %q: %w; want a quantity such as \"500Mi\"", key, name, printable.Shown(amounts[name]), err))
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
