package guest

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/uml"
)

const mib = 1 << 20

// The configuration in force, and what it is without a change.
const (
	installed   = "/etc/evictd/evictd.yaml"
	asInstalled = "/checkout/deploy/evictd.yaml"
)

// TestGuestNode is the whole life of the node: it is installed once, and the stories
// follow each other.
func TestGuestNode(t *testing.T) {
	uml.In(t)
	if os.Getenv(thrashEnv) != "" {
		t.Skip("another story is played")
	}
	t.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
	t.Logf("%s, %s", sh(t, "uname -sr; cat /proc/1/comm; stat -f -c %T /sys/fs/cgroup"), sh(t, "containerd --version; runc --version | head -1"))
	s, err := stack.Attach(t.Context(), os.Getenv(driverEnv) == "systemd")
	must(t, err)
	must(t, hog.Import(t.Context(), s, "/checkout/hog"))
	n := &node{stack: s}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("evictd's log:\n%s", sh(t, "journalctl -u evictd -o cat --no-pager | tail -80"))
		}
	})
	// Pods are there before evictd, as on any node: of none it could tell nothing.
	n.start(t, "memory", 100)
	t.Logf("%s", sh(t, "cd /checkout && sh -ex install.sh 2>&1"))
	if p := status(t); p.Passes == 0 || p.Time.IsZero() { // systemctl has waited for that
		t.Errorf("evictd is started and has concluded nothing yet: %+v", p)
	}
	eventually(t, "evictd shows its plugins", func() bool { return exec.Command("/usr/bin/evictctl", "plugins", "--config", installed).Run() == nil })
	nightly := os.Getenv("EVICTD_NIGHTLY") != ""
	for _, story := range []struct {
		name   string
		timed  bool
		played func(*testing.T)
	}{
		{"check", false, check},
		{"watchdog", false, watchdog},
		{"wrong driver", false, n.wrongDriver},
		{"memory", false, n.memory},
		{"kernel", false, n.kernel},
		{"figures", true, n.figures},
		{"stopped", true, n.stopped},
		{"pids", false, n.pids},
		{"nodefs", false, n.nodefs},
		{"packaged", false, n.packaged},
	} {
		if story.timed && !nightly { // times of a machine that may be slow
			continue
		}
		if !t.Run(story.name, story.played) {
			return
		}
	}
}

// A node has three pods at a time. By priority alone quiet would be the first to go,
// by its use it is the last.
type node struct {
	stack *stack.Stack
	pods  map[string]*stack.Pod
	run   int
	// endedMS is the median time from a crossing to the end of the hog, with a runtime that answers.
	endedMS float64
	// earlyoomPSS is the proportional set size of the last earlyoom, in bytes.
	earlyoomPSS int64
}

var podNames = []string{"quiet", "important", "hog"}

// The requests are what tells who uses more than it asked for.
const manifest = `apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: %[2]s, uid: 11111111-0000-4000-8000-%012[3]d}
spec:
  priority: %[4]d
  terminationGracePeriodSeconds: 600
  containers:
  - {name: main, image: %[5]q, command: [/bin/sleep, "100000"], resources: {requests: {memory: %[6]s, ephemeral-storage: %[6]s}}}
`

func (n *node) start(t *testing.T, story string, hogPriority int) {
	t.Helper()
	n.pods = map[string]*stack.Pod{}
	for i, is := range []struct {
		priority int
		requests string
	}{{0, "200Mi"}, {1000, "100Mi"}, {hogPriority, "10Mi"}} {
		n.run++
		pod, err := stack.ReadManifest(fmt.Appendf(nil, manifest, podNames[i], story, n.run, is.priority, hog.Image, is.requests))
		must(t, err)
		n.pods[podNames[i]], err = n.stack.RunPod(t.Context(), pod)
		must(t, err)
	}
}

// end removes what a story has left of its pods.
func (n *node) end(t *testing.T) {
	t.Helper()
	for _, p := range n.pods {
		// As long as the runtime is late evictd may be ending another pod, which the runtime does not remove meanwhile.
		eventually(t, p.Key()+" is removed", func() bool {
			err := p.Remove(t.Context())
			if err != nil {
				t.Log(err)
			}
			return err == nil
		})
	}
}

// check is a story of what the node is, of which the tests know it.
func check(t *testing.T) {
	said := ""
	// A plugin that is slow here is started again, which check says.
	eventually(t, "check finds all of it well", func() bool {
		out, err := exec.Command("evictctl", "check", "--all", "--start-plugins=false", "--config", installed).CombinedOutput()
		said = string(out)
		return err == nil
	})
	t.Logf("%s", said)
	for _, want := range []string{
		`cgroups +version 2`, `runtime +containerd 1\.`, `cgroup driver +` + os.Getenv(driverEnv) + ` `, `layout +shared `, `plugins +disk, memory, pid `,
		`memory events +no `, `PSI +no `, `memory\.reclaim +yes`, `process_mrelease +yes`, `memory\.available +plugin memory +looked at`,
	} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("evictctl check --all does not say %q", want)
		}
	}
}

// watchdog is a story of a daemon that neither ends nor does anything any more.
func watchdog(t *testing.T) {
	const dropIn = "/etc/systemd/system/evictd.service.d/impatient.conf"
	must(t, os.MkdirAll(filepath.Dir(dropIn), 0o755))
	must(t, os.WriteFile(dropIn, []byte("[Service]\nWatchdogSec=15\nTimeoutAbortSec=5\n"), 0o644))
	sh(t, "systemctl daemon-reload && systemctl restart evictd")
	pid := sh(t, "systemctl show -P MainPID evictd")
	sh(t, "busybox kill -STOP "+pid)
	eventually(t, "a stopped evictd is killed and another one started", func() bool {
		code, _ := get("/healthz")
		return code == http.StatusOK && sh(t, "systemctl show -P MainPID evictd") != pid
	})
	if got := sh(t, "journalctl -u evictd -o cat --no-pager"); !strings.Contains(got, "Watchdog timeout") {
		t.Errorf("the journal does not say why evictd was started again:\n%s", got)
	}
	must(t, os.RemoveAll(filepath.Dir(dropIn)))
	sh(t, "systemctl daemon-reload && systemctl restart evictd")
}

// wrongDriver is a story without an eviction: the configuration contradicts the node,
// which made every pod one without figures and the wrong one go.
func (n *node) wrongDriver(t *testing.T) {
	own := os.Getenv(driverEnv)
	wrong := map[string]string{"systemd": "cgroupfs", "cgroupfs": "systemd"}[own]
	reported := fmt.Sprintf("cgroup driver of this node is %q", own)
	config := readYAML(t, asInstalled)
	config["cgroupDriver"] = wrong
	writeYAML(t, installed, config)
	if out, err := exec.Command("/usr/bin/evictctl", "check", "--config", installed).CombinedOutput(); err == nil || !strings.Contains(string(out), reported) {
		t.Errorf("evictctl check with %s: %v\n%s\nwant it refused, since the %s", wrong, err, out, reported)
	}
	sh(t, "systemctl restart evictd")
	eventually(t, "/healthz tells of the wrong driver", func() bool {
		code, text := get("/healthz")
		return code == http.StatusServiceUnavailable && strings.Contains(text, own) && strings.Contains(text, wrong)
	})
	sh(t, "sed 's/^dryRun: true$/dryRun: false/' "+asInstalled+" >"+installed+" && systemctl restart evictd")
	eventually(t, "/healthz is well with the configuration as installed, the dry run ended", func() bool {
		code, _ := get("/healthz")
		return code == http.StatusOK
	})
	if got := status(t).Cgroups.Driver; got != own {
		t.Errorf("the driver found is %q, want %q", got, own)
	}
}

// memory is a story with the configuration as it was installed, deploy/evictd.yaml, but for its dry run. The
// hog crosses its 100Mi and leaves the kernel enough: without memory it does not get
// to anything any more.
func (n *node) memory(t *testing.T) {
	awaitUp(t, "memory")
	var available int64
	eventually(t, "memory.available is observed", func() bool {
		signals := status(t).Signals
		at := slices.IndexFunc(signals, func(s signal) bool { return s.Signal == "memory.available" && s.Available > 0 })
		if at >= 0 {
			available = signals[at].Available
		}
		return at >= 0
	})
	n.press(t, fmt.Sprintf("/bin/hog --mib %d --rate-mib-per-s 30", available/mib-60))
	n.wentAlone(t, "hog", "memory.available")
	n.end(t)
}

// kernel is a story of pods at limits of their own: a process that the kernel kills is a child in one, in another the first
// process, with which the container ends, and in the third it kills both of a container at once.
func (n *node) kernel(t *testing.T) {
	n.pods = map[string]*stack.Pod{}
	for name, script := range map[string]string{
		"child": "tail /dev/zero; sleep 100000", "first": "exec tail /dev/zero",
		"group": "while [ ! -e /go ]; do sleep 1; done; sleep 100000 & exec tail /dev/zero",
	} {
		n.run++
		pod, err := stack.ReadManifest(fmt.Appendf(nil, `apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: kernel, uid: 11111111-0000-4000-8000-%012d}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: %q, command: [/bin/sh, -c, %q], resources: {limits: {memory: 24Mi}}}
`, name, n.run, hog.Image, script))
		must(t, err)
		n.pods[name], err = n.stack.RunPod(t.Context(), pod)
		must(t, err)
	}
	sh(t, "echo 1 >$(find /sys/fs/cgroup -type d -name '*"+n.pods["group"].ContainerIDs["main"]+"*')/memory.oom.group")
	must(t, n.pods["group"].Exec(t.Context(), "main", "touch /go"))
	for name, killed := range map[string]string{"child": "a process", "first": "a process", "group": "[23] processes"} { // the kernel may count the first of a group twice
		said := ""
		eventually(t, "the kill of "+name+" is on record", func() bool {
			out, err := exec.Command("/usr/bin/evictctl", "explain", "kernel/"+name).CombinedOutput()
			said = string(out)
			return err == nil
		})
		t.Logf("%s", said)
		if want := "kernel/" + name + ": the kernel killed " + killed + " of container main: the container reached its limit of 24Mi of memory"; !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("want %q", want)
		}
	}
	n.end(t)
}

// pids is a story in which priority comes first, so that hog has to have as low a
// one as quiet.
func (n *node) pids(t *testing.T) {
	n.start(t, "pids", 0)
	awaitUp(t, "pid")
	configure(t, "pid.available", fmt.Sprint(pidsAvailable(t)-100))
	n.press(t, "for i in $(seq 200); do sleep 100000 & done; wait")
	n.wentAlone(t, "hog", "pid.available")
	configure(t, "pid.available", "1")
	n.end(t)
}

// nodefs is a story with the thresholds as installed; images are on the same filesystem.
func (n *node) nodefs(t *testing.T) {
	n.start(t, "nodefs", 100)
	awaitUp(t, "disk")
	var fs unix.Statfs_t
	must(t, unix.Statfs("/var/lib/kubelet", &fs))
	fill := (int64(fs.Bavail) - int64(fs.Blocks)/20) * fs.Bsize / mib
	n.press(t, fmt.Sprintf("busybox fallocate -l %dM /filled", fill))
	n.wentAlone(t, "hog", "nodefs.available", "imagefs.available", "containerfs.available")
	n.end(t)
	// As long as the runtime removes what the hog has filled the disk is short, and an unused image goes.
	must(t, hog.Import(t.Context(), n.stack, "/checkout/hog"))
}

// press runs a script in the hog and does not wait for it.
func (n *node) press(t *testing.T, script string) {
	t.Helper()
	must(t, n.pods["hog"].Exec(t.Context(), "main", "("+script+") </dev/null >/dev/null 2>&1 &"))
}

// over are the states of an eviction that goes on no further. This kernel may take
// longer over the end of a container than evictd goes on with it: then it is given up,
// and nothing of it may run all the same.
var over = []string{"finished", "given-up"}

// wentAlone waits until the first eviction of the story is over, and looks who is left.
func (n *node) wentAlone(t *testing.T, name string, signals ...string) {
	t.Helper()
	want := n.pods[name].Key()
	var mine []eviction
	eventually(t, "an eviction is over", func() bool {
		mine = nil
		for _, e := range status(t).Evictions {
			if strings.HasPrefix(e.Pod, n.pods[name].Namespace+"/") {
				mine = append(mine, e)
			}
		}
		return len(mine) > 0 && slices.Contains(over, mine[0].State)
	})
	t.Logf("%+v", mine)
	if len(mine) != 1 || mine[0].Pod != want || !slices.Contains(signals, mine[0].Signal) {
		t.Errorf("evicted %+v, want %s alone, for one of %v", mine, want, signals)
	}
	eventually(t, "the runtime has noticed", func() bool { // evictd kills the processes itself if that takes long
		running, err := n.pods[name].Running(t.Context())
		return err == nil && !running
	})
	for other, p := range n.pods {
		if running, err := p.Running(t.Context()); err != nil || running != (other != name) {
			t.Errorf("%s runs: %v, %v; want only %s to be gone", p.Key(), running, err, want)
		}
	}
}

// pidsAvailable returns the number of tasks that the kernel has left.
func pidsAvailable(t *testing.T) int {
	t.Helper()
	var most, threads, used int
	read := func(file, format string, to ...any) {
		raw, err := os.ReadFile(file)
		must(t, err)
		_, err = fmt.Sscanf(string(raw), format, to...)
		must(t, err)
	}
	read("/proc/sys/kernel/pid_max", "%d", &most)
	read("/proc/sys/kernel/threads-max", "%d", &threads)
	var load [3]float64
	var running int
	read("/proc/loadavg", "%f %f %f %d/%d", &load[0], &load[1], &load[2], &running, &used)
	return min(most, threads) - used
}

// configure has the installed configuration with one hard threshold more put in force.
func configure(t *testing.T, signal, value string) {
	t.Helper()
	config := readYAML(t, asInstalled)
	hard := maps.Clone(config["evictionHard"].(map[string]any))
	hard[signal] = value
	config["evictionHard"], config["dryRun"] = hard, false
	writeYAML(t, installed, config)
	sh(t, "systemctl reload evictd")
	shown := value
	if q, err := resource.ParseQuantity(value); err == nil { // 143872000 is shown as 143872k
		shown = q.String()
	}
	defer func() {
		if t.Failed() {
			t.Logf("want %s %s in force: %+v", signal, shown, status(t))
		}
	}()
	eventually(t, "the new threshold is in force", func() bool {
		return slices.ContainsFunc(status(t).Thresholds, func(th threshold) bool { return th.Signal == signal && th.Value == shown })
	})
}

func sh(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-c", script).CombinedOutput() // also at the end, when the test's context is over
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}
