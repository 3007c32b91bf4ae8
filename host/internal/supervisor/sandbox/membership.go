package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A mount is where a cgroup hierarchy is seen.
type mount struct {
	// root is the cgroup that is seen at point.
	root, point string
	// controllers are those of a hierarchy of version 1; none of version 2.
	controllers []string
}

// parseMounts returns the cgroup hierarchies in a mountinfo file (proc(5)), those
// of version 1 as far as they have one of the controllers.
func parseMounts(mountinfo string, controllers []string) []mount {
	var all []mount
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(place) < 5 || len(kind) < 3 {
			continue
		}
		m := mount{root: unescape(place[3]), point: unescape(place[4])}
		switch kind[0] {
		case "cgroup2":
			all = append(all, m)
		case "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				if slices.Contains(controllers, option) {
					m.controllers = append(m.controllers, option)
				}
			}
			if len(m.controllers) > 0 {
				all = append(all, m)
			}
		}
	}
	return all
}

// unescape undoes what mountinfo does to blanks.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// parseMembership returns the cgroup of each controller from a /proc/PID/cgroup
// file (cgroups(7)), that of version 2 under "".
func parseMembership(content string) map[string]string {
	in := map[string]string{}
	for line := range strings.Lines(content) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			in[controller] = parts[2]
		}
	}
	return in
}

// dir is the directory of a cgroup, as /proc names it, in the mount.
func (m mount) dir(cgroup string) (string, error) {
	rest := cgroup
	if m.root != "/" {
		var below bool
		rest, below = strings.CutPrefix(cgroup, m.root)
		if !below || rest != "" && rest[0] != '/' {
			return "", fmt.Errorf("cgroup %s is not below %s, which is what is mounted at %s", cgroup, m.root, m.point)
		}
	}
	if strings.HasPrefix(rest, "/..") { // outside of the cgroup namespace
		return "", fmt.Errorf("cgroup %s is outside of what is mounted at %s", cgroup, m.point)
	}
	return path.Join(m.point, rest), nil
}
