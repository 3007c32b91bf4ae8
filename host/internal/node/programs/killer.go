package programs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/nodefs"
)

// managed matches what lets systemd-oomd kill in a unit.
var managed = regexp.MustCompile(`(?m)^\s*(ManagedOOM(?:Swap|MemoryPressure))\s*=\s*kill\s*$`)

// A Killer is a program that kills processes of pods when memory runs short.
type Killer struct {
	// Does says which one kills what, and when; Else, what lets evictd act first while it runs.
	Does, Else string
}

// Killers returns those of the node. systemd-oomd is one where a slice lets it kill pods.
func Killers(node nodefs.FS) (all []Killer) {
	found, _ := running(node, "earlyoom", "nohang", "oomd", "systemd-oomd") // without /proc none is known
	for _, p := range found {
		switch p.name {
		case "earlyoom":
			below := cmp.Or(flagOf(p.args, "m"), "10") + "% of memory, and of swap,"
			if kib := flagOf(p.args, "M"); kib != "" {
				below = kib + "KiB of memory"
			}
			all = append(all, Killer{
				fmt.Sprintf("earlyoom (process %s) kills the process with the highest oom_score, of BestEffort pods first, when less than %s is available", p.pid, below),
				"less of memory in its -m than in evictd's memory.available",
			})
		case "nohang", "oomd":
			all = append(all, Killer{fmt.Sprintf("%s (process %s) kills as its file says when memory runs short", p.name, p.pid), "limits in its file below evictd's memory.available"})
		case "systemd-oomd":
			if by := managedSlices(node); len(by) > 0 {
				all = append(all, Killer{
					fmt.Sprintf("systemd-oomd (process %s) kills the cgroup below %s that takes most swap or stalls most, pods too,", p.pid, strings.Join(by, ", ")),
					"ManagedOOMSwap=auto and ManagedOOMMemoryPressure=auto there",
				})
			}
		}
	}
	text, _ := input.ReadFileSoon(node.Path("/etc/os-release"), maxFileBytes) // some nodes have none
	if strings.Contains("\n"+string(text), "\nID=talos\n") {
		all = append(all, Killer{
			"from 1.12 on the OOM controller of Talos kills the BestEffort pod that takes most while memory stalls",
			"a triggerExpression in its OOMConfig that is met later than evictd's memory.available",
		})
	}
	return all
}

// managedSlices returns the slices around pods in which systemd-oomd may kill, with their settings.
func managedSlices(node nodefs.FS) (all []string) {
	for _, unit := range []string{"-.slice", "kubepods.slice", "kubepods-burstable.slice", "kubepods-besteffort.slice"} {
		for _, at := range []string{"/usr/lib/systemd/system/", "/etc/systemd/system/", "/run/systemd/system/"} {
			files, _ := filepath.Glob(node.Path(at+unit+".d") + "/*.conf") // the pattern is right
			for _, file := range append(files, node.Path(at+unit)) {
				text, _ := input.ReadFileSoon(file, maxFileBytes) // most are not there
				for _, m := range managed.FindAllStringSubmatch(string(text), -1) {
					if set := unit + " (" + m[1] + ")"; !slices.Contains(all, set) {
						all = append(all, set)
					}
				}
			}
		}
	}
	return all
}
