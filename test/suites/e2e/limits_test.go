package e2e_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Each limit on local storage evicts the pod that exceeds it, with the kubelet's
// words, while the node has room in plenty.
func TestLocalStorageLimits(t *testing.T) {
	n := newSite(t, shared(debian))
	quiet := map[string]string{"main": idle, "side": idle}
	limits := map[string]string{"main": "20Mi", "side": "40Mi"}
	frugal := run(t, n.Stack, sketch{name: "frugal", containers: quiet, limits: limits, emptyDirs: map[string]string{"data": "20Mi"}})
	must(t, frugal.Exec(t.Context(), "main", bytesIn("/data/file", 10*mib)+bytesIn("/file", 10*mib)))
	n.start(t, map[string]any{"evictionHard": map[string]string{}, "podMetrics": 1})
	wantLargest(t, n, frugal.Key(), 20*mib)
	for _, c := range []struct {
		title, label, message string
		sketch
		excess string
	}{
		{
			title: "an emptyDir volume over its size limit:", label: "emptydirfs.limit",
			message: `Usage of EmptyDir volume "data" exceeds the limit "20Mi". `,
			sketch:  sketch{name: "hoarder", emptyDirs: map[string]string{"data": "20Mi"}},
			excess:  bytesIn("/data/file", 25*mib),
		},
		{
			title: "a pod over its containers' limits together, with volumes, layers and logs:", label: "ephemeralpodfs.limit",
			message: "Pod ephemeral local storage usage exceeds the total limit of containers 60Mi. ",
			sketch:  sketch{name: "spreader", containers: quiet, limits: limits, emptyDirs: map[string]string{"data": ""}},
			excess:  bytesIn("/data/file", 40*mib) + bytesIn("/file", 15*mib) + linesToLog(3*mib) + bytesIn("/data/more", 8*mib),
		},
		{
			title: "a container over its own limit:", label: "ephemeralcontainerfs.limit",
			message: `Container main exceeded its local ephemeral storage limit "20Mi". `,
			sketch:  sketch{name: "scribbler", containers: quiet, limits: limits},
			excess:  bytesIn("/file", 25*mib),
		},
	} {
		n.log.chapter(t, c.title)
		p := run(t, n.Stack, c.sketch)
		cross(t, p, c.excess)
		said := n.log.await(t, "evicting pod")
		n.log.await(t, "pod finished")
		n.log.print(t)
		n.log.wantEvicted(t, p.Key())
		if said.String("signal") != c.label || said.String("message") != c.message {
			t.Errorf("evicted for %q with %q, want %q with %q", said.String("signal"), said.String("message"), c.label, c.message)
		}
	}
	wantRunning(t, frugal) // it is within its limits
}

// usage matches the series of a pod that uses the kubelet's filesystem.
var usage = regexp.MustCompile(`(?m)^evictd_pod_usage\{namespace="([^"]*)",pod="([^"]*)",signal="nodefs.available"\} (\S+)$`)

// wantLargest waits until the metrics show one pod with at least so many bytes, and not many more.
func wantLargest(t *testing.T, n *site, pod string, bytes float64) {
	t.Helper()
	seen := ""
	for end := time.Now().Add(maxWait); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		_, page, err := n.agent.Get(t.Context(), "/metrics")
		must(t, err)
		found := usage.FindAllStringSubmatch(string(page), -1)
		seen = fmt.Sprint(found)
		if len(found) != 1 || found[0][1]+"/"+found[0][2] != pod {
			continue
		}
		if used, err := strconv.ParseFloat(strings.TrimSpace(found[0][3]), 64); err == nil && used >= bytes && used < bytes*1.2 {
			return
		}
	}
	t.Errorf("the metrics show %s, want %s with %v bytes", seen, pod, bytes)
}
