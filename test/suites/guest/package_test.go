package guest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// packaged is a story of the package's whole life: installed as docs/install.md says, upgraded in the
// middle of a kill, and purged.
func (n *node) packaged(t *testing.T) {
	sh(t, "systemctl disable --now evictd && rm -r /etc/systemd/system/evictd.service /usr/bin/evictd /usr/bin/evictctl /usr/libexec/evictd /etc/evictd /var/lib/evictd /run/evictd && systemctl daemon-reload")
	before := files(t)
	t.Logf("%s", sh(t, "apt-get install -y /checkout/evictd_1.0_amd64.deb 2>&1"))
	if active := sh(t, "systemctl is-active evictd || :"); active != "inactive" {
		t.Errorf("after the installation evictd is %s, want it not started", active)
	}
	// A pod under a soft threshold has its own grace, 600 s: time for an upgrade on any machine.
	config := readYAML(t, installed)
	config["dryRun"], config["evictionMaxPodGracePeriod"], config["evictionSoftGracePeriod"] = false, 600, map[string]any{"pid.available": "1s"}
	config["evictionSoft"] = map[string]any{"pid.available": fmt.Sprint(pidsAvailable(t) - 100)}
	writeYAML(t, installed, config)
	n.start(t, "packaged", 0)
	sh(t, "evictctl check && systemctl enable --now evictd")
	awaitUp(t, "pid")
	sh(t, "evictctl protect-node --write")
	protected := func(t *testing.T) string {
		return sh(t, "cd /sys/fs/cgroup/system.slice; cat memory.min containerd.service/memory.min containerd.service/cpu.weight")
	}
	if got := protected(t); strings.HasPrefix(got, "0\n") || strings.Contains(got, "\n0\n") || !strings.HasSuffix(got, "\n1000") {
		t.Errorf("after protect-node --write memory.min of system.slice and containerd, and its CPU weight are\n%s", got)
	}
	n.press(t, "for i in $(seq 200); do sleep 100000 & done; wait")
	var killed eviction
	eventually(t, "a kill is under way", func() bool {
		if all := status(t).Evictions; len(all) > 0 {
			killed = all[0]
		}
		return killed.State == "killing"
	})
	t.Logf("%s", sh(t, "apt-get install -y /checkout/evictd_1.1_amd64.deb 2>&1"))
	if version := sh(t, "dpkg-query -W -f '${Version} ${Conffiles}' evictd; evictd version"); !strings.HasPrefix(version, "1.1") {
		t.Errorf("after the upgrade: %s", version)
	}
	eventually(t, "the new evictd goes on with the kill", func() bool {
		code, _ := get("/healthz")
		return code == http.StatusOK && slices.ContainsFunc(status(t).Evictions, func(e eviction) bool { return e.State == "killing" })
	})
	sh(t, "grep -ls "+n.pods["hog"].ContainerIDs["main"]+" /proc/[0-9]*/cgroup | cut -d / -f 3 | xargs busybox kill -9 || :") // all end with the first
	n.wentAlone(t, "hog", "pid.available")
	if now := readYAML(t, installed); now["evictionMaxPodGracePeriod"] == nil {
		t.Errorf("the upgrade replaced the operator's configuration: %v", now)
	}
	n.end(t)
	t.Logf("%s", sh(t, "apt-get purge -y evictd 2>&1"))
	for what, left := range map[string]string{
		"processes":  strings.Join(processes(t, "evictd"), " "),
		"protection": strings.TrimPrefix(protected(t), "0\n0\n100"),
		"users":      sh(t, "grep evictd /etc/passwd /etc/group || :"),
		"cgroups":    sh(t, "find /sys/fs/cgroup -name '*evictd*' ! -path '*evictd-stack*'"),
		"mounts":     sh(t, "grep evictd /proc/mounts || :"),
	} {
		if left != "" {
			t.Errorf("%s left by the package:\n%s", what, left)
		}
	}
	if after := files(t); after != before {
		t.Errorf("files before and after differ:\n%s", difference(before, after))
	}
}

// files lists what the root filesystem has, but for what dpkg, the journal and pods keep.
func files(t *testing.T) string {
	t.Helper()
	return sh(t, `find / -xdev \( -path /proc -o -path /sys -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/containerd -o -path /var/lib/evictd-stack -o -path /tmp \) -prune -o ! -path '/etc/*-' ! -path /etc/.pwd.lock -print | sort`)
}

// difference lists the lines that only one of two texts has.
func difference(before, after string) string {
	var out strings.Builder
	for _, of := range []struct{ sign, lines, others string }{{"-", before, after}, {"+", after, before}} {
		has := map[string]bool{}
		for line := range strings.Lines(of.others) {
			has[strings.TrimSpace(line)] = true
		}
		for line := range strings.Lines(of.lines) {
			if !has[strings.TrimSpace(line)] {
				out.WriteString(of.sign + strings.TrimSpace(line) + "\n")
			}
		}
	}
	return out.String()
}
