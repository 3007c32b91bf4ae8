// Command nvme-spare is an evictd plugin with a signal of its own: how many
// percent of an NVMe drive's spare blocks are left. A drive that runs out of them
// turns read-only; with a threshold the pods that write most leave the node before.
//
//	evictionHard: {acme.example/nvme.spare: "10"}
//	plugins:
//	  nvme-spare:
//	    config: {smartLog: /run/acme/nvme0.json, device: "259:0"}
//
// Spare blocks do not come back. Once below the threshold the node sheds a pod with
// each new figure until only those are left that are never evicted, and its
// condition keeps others away: what one wants of a node whose drive is to be changed.
//
// The figure comes from a file that an agent of the node writes each minute, since
// asking the drive takes rights that a plugin need not have:
//
//	nvme smart-log -o json /dev/nvme0 > /run/acme/nvme0.tmp && mv /run/acme/nvme0.tmp /run/acme/nvme0.json
//
// What a pod has written comes from the io controller of its cgroup. There is no
// Watcher: a drive wears out in months, a look at each pass is early enough.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

const signal eviction.Signal = "acme.example/nvme.spare"

// definition describes a custom signal to the host: thresholds are printed in this format,
// messages name the resource ("The node was low on resource: acme.example/nvme-spare"), and the
// condition shows the pressure.
var definition = eviction.Definition{
	Unit:      "percent",
	Format:    eviction.FormatDecimalSI,
	Resource:  "acme.example/nvme-spare",
	Condition: "acme.example/NVMeWearPressure",
	// No pod's end brings spare blocks back: there is no relief to wait for.
	ReliefTime: time.Millisecond,
}

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	p := new(spare)
	return sdk.Plugin{
		Name:       "nvme-spare",
		Version:    "1.0.0",
		Signals:    []eviction.SignalSpec{{Signal: signal, Definition: &definition}},
		Configurer: sdk.Configure(p.configure),
		Observer:   p,
		Measurer:   p,
		Ranker:     ranker{},
	}
}

// spare is shared by the capabilities. Calls run at the same time; each takes the settings once
// and stays with them.
type spare struct {
	current atomic.Pointer[settings]
}

// settings hold a valid configuration and what was made of it.
type settings struct {
	fs       nodefs.FS
	naming   *nodefs.Naming
	smartLog string
	maxAge   time.Duration
	device   string
}

type config struct {
	// SmartLog is the file with the drive's SMART log, /run/acme/nvme0.json by default.
	SmartLog string `json:"smartLog"`
	// MaxAge bounds the age of the file, as a Go duration. With an older one the signal is
	// unknown: the agent is gone, and nothing is to be done on its word. 2m by default; more
	// does not help, since the host acts on no older figure.
	MaxAge string `json:"maxAge"`
	// Device is the drive's MAJOR:MINOR as lsblk prints it. What pods write to
	// others does not wear it; without Device all drives count.
	Device string `json:"device"`
}

var deviceNumber = regexp.MustCompile(`^[0-9]{1,4}:[0-9]{1,7}$`)

func (p *spare) configure(_ context.Context, node eviction.NodeFacts, c config) error {
	s := settings{fs: nodefs.FS{Root: node.RootDir}, smartLog: cmp.Or(c.SmartLog, "/run/acme/nvme0.json"), device: c.Device}
	var err error
	var errs []error // all at once, so that one look is enough
	if s.maxAge, err = time.ParseDuration(cmp.Or(c.MaxAge, "2m")); err != nil || s.maxAge <= 0 {
		errs = append(errs, fmt.Errorf("config: maxAge: %q, want a duration such as 90s", c.MaxAge))
	}
	if c.Device != "" && !deviceNumber.MatchString(c.Device) {
		errs = append(errs, fmt.Errorf("config: device: %q, want MAJOR:MINOR such as 259:0", c.Device))
	}
	if s.naming, err = s.fs.Naming(node.CgroupRoot, node.CgroupDriver); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		p.current.Store(&s) // last, so that a refused configuration changes nothing
	}
	return errors.Join(errs...)
}
