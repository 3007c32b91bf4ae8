package config

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/quantity"
)

// Kubelet is what of a kubelet's configuration others beside it have to know. Nothing of
// it becomes evictd's own: see Flags for the file that does.
type Kubelet struct {
	Thresholds []policy.Threshold
	// ReservedMemory is what kubeReserved and systemReserved keep from pods.
	ReservedMemory resource.Quantity
	// CgroupsPerQOS: pods have cgroups.
	CgroupsPerQOS bool
}

// LoadKubelet reads the file of a kubelet, or what its /configz answers, and the drop-ins
// in dir, either of which may be "". The error joins all that is wrong, one line each.
func LoadKubelet(file, dir string) (Kubelet, error) {
	c := blank()
	doc, ls, errs, err := kubeletFiles{file: file, dir: dir, configz: true}.lay(&c)
	if err != nil {
		return Kubelet{}, err
	}
	mergeHard(&c)
	thresholds, err := c.Thresholds()
	reserved, more := reservedMemory(doc)
	for _, err := range append(split(err), more...) {
		errs = append(errs, ls.blame(err))
	}
	return Kubelet{Thresholds: thresholds, ReservedMemory: reserved, CgroupsPerQOS: c.CgroupsPerQOS}, report(errs)
}

// unwrap takes the answer of /configz out of what it comes in. Before v1.30 or so it does
// not say what it is.
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

// reservedMemory is what two keys say that are none of evictd's.
func reservedMemory(doc object) (resource.Quantity, []error) {
	sum := *resource.NewQuantity(0, resource.BinarySI)
	var errs []error
	for _, key := range []string{"kubeReserved", "systemReserved"} {
		var amounts map[string]string
		if value := doc[key]; value == nil || json.Unmarshal(value, &amounts) != nil || amounts["memory"] == "" {
			continue
		}
		q, err := quantity.Parse(amounts["memory"])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s[%q]: %q: %w; want a quantity such as \"500Mi\"", key, "memory", input.Shown(amounts["memory"]), err))
			continue
		}
		sum.Add(q)
	}
	return sum, errs
}
