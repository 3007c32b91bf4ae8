package guest

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/uml"
)

const (
	// thrashEnv gives the run to the tests inside, as JSON.
	thrashEnv = "EVICTD_TEST_THRASH"
	// thrashMark precedes the result of a run on the console.
	thrashMark = "guest: thrash "
	// seriesMark precedes each line of the series of a run: the milliseconds of the run, memory.available and MemAvailable
	// in MiB, refaults, direct scans, and microseconds of full PSI, as totals; then the milliseconds of a gap that ends there.
	seriesMark = "guest: series "
	// The memory of the node that thrashes, in User-Mode Linux and with Debian's kernel, and its disks, which have the speed of a cloud's.
	thrashMemoryMiB, stockMemoryMiB           = 640, 1024
	diskBytesPerSecond, diskRequestsPerSecond = 125 << 20, 3000
	// The hog fills leaveMiB from the end of the memory, and grows on from there at the rate of its run; earlier where a
	// threshold of headroom may be met on the way.
	leaveMiB, leaveHeadroomMiB = 180, 260
	// thrashMost bounds a run from there on.
	thrashMost = 120 * time.Second
)

// A thrash is one run: a hog without a limit grows until somebody ends it, on a node whose services read their data.
type thrash struct {
	// By ends it: evictd, earlyoom, oomd, or "" for the kernel alone.
	By string
	// Threshold is evictd's hard threshold of memory.available, RateMiB the hog's growth per second.
	Threshold string
	RateMiB   int
	// Headroom is evictd's hard threshold of evictd.io/memory.headroom, "" for none.
	Headroom string
	// Case takes the place of the hog: a load of which no pod must go, by its name in harmless.
	Case string
	// Hot: the calm pods read 200 MiB of data all the time, otherwise 24.
	Hot bool
	// Protected: the drop-ins of `evictctl protect-node` are in force.
	Protected bool
	// Killed: evictd gets SIGKILL as the hog begins to grow.
	Killed bool
	// Rounds are so many hogs one after another on the same node, or recordings of the same load, 0 for one.
	Rounds int
	// Seconds are those of a recording, 0 for 40.
	Seconds int
	// Busy: a program has one of this machine's processors meanwhile.
	Busy bool
}

func (r thrash) String() string {
	pods, path, killed, busy := "calm", "", "", ""
	if r.Hot {
		pods = "hot"
	}
	if r.Protected {
		path = "protected"
	}
	if r.Killed {
		killed = "killed"
	}
	if r.Busy {
		busy = "busy"
	}
	headroom := ""
	if r.Headroom != "" {
		headroom = "headroom " + r.Headroom
	}
	load := fmt.Sprintf("at %d", r.RateMiB)
	if r.Case != "" {
		load = r.Case
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s %s %s %s", cmp.Or(r.By, "kernel"), r.Threshold, headroom, load, pods, path, killed, busy)), " ")
}

// A thrashed is what became of a run. Times are from the moment when the hog had left leaveMiB, or was ended before.
type thrashed struct {
	thrash
	// Ended names the one that ended the hog: By, kernel, or "no one".
	Ended string
	// GoneSeconds is when the hog was gone, CrossedSeconds since when the threshold had been met, 0 for never, ChosenSeconds when
	// evictd had chosen a pod.
	GoneSeconds, CrossedSeconds, ChosenSeconds float64
	// GapSeconds is the longest time in which a service had no round through its data.
	GapSeconds float64
	// MajorFaults are those of the evictor meanwhile, and LeastMiB is its least resident memory.
	MajorFaults, LeastMiB int
	// AvailableMiB is the least memory that was available.
	AvailableMiB int
	// Others are calm pods that did not survive.
	Others []string
	// PluginsSeconds is when an evictd that was killed had its memory plugin again, from its new start.
	PluginsSeconds float64
}

// thrashFile has the results of the last TestThrash, for the document of make bench.
const thrashFile = "../../../bin/test/thrash.json"

// everyThrash returns the runs of the whole table.
func everyThrash() (runs []thrash) {
	for _, hot := range []bool{false, true} {
		for _, rate := range []int{5, 20, 60} {
			for _, r := range []thrash{
				{},
				{By: "earlyoom"},
				{By: "oomd"},
				{By: "evictd", Threshold: "100Mi"},
				{By: "evictd", Threshold: "100Mi", Headroom: "25%"},
				{By: "evictd", Threshold: "100Mi", Protected: true},
				{By: "evictd", Threshold: "5%", Protected: true},
			} {
				r.RateMiB, r.Hot = rate, hot
				runs = append(runs, r)
			}
		}
	}
	return runs
}

// stockThrash returns the runs on Debian's own kernel, each with three hogs.
func stockThrash() (runs []thrash) {
	for _, r := range []thrash{
		{By: "earlyoom", RateMiB: 60},
		{By: "evictd", RateMiB: 20},
		{By: "evictd", RateMiB: 60},
		{By: "evictd", RateMiB: 60, Busy: true},
		{By: "evictd", RateMiB: 20, Hot: true},
		{By: "evictd", RateMiB: 60, Hot: true},
		{By: "evictd", RateMiB: 60, Protected: true},
	} {
		if r.Rounds = 3; r.By == "evictd" {
			r.Threshold = "100Mi"
		}
		runs = append(runs, r)
	}
	return runs
}

// TestThrashStock plays the same on a node with Debian's own kernel and two processors, emulated.
func TestThrashStock(t *testing.T) {
	if os.Getenv("EVICTD_THRASH_STOCK") == "" {
		t.Skip("boots nodes for half an hour: run make thrash-stock")
	}
	cache, err := os.UserCacheDir()
	must(t, err)
	root := strings.TrimSpace(run(t, "./rootfs.sh", filepath.Join(cache, "evictd", "guest"), "trixie", "stock"))
	tests := filepath.Join(t.TempDir(), "guest.test")
	uml.BuildTests(t, tests)
	runs := stockThrash()
	if only := os.Getenv(thrashEnv); only != "" {
		runs = nil
		must(t, json.Unmarshal([]byte(only), &runs))
	}
	for _, r := range runs {
		t.Run(r.String(), func(t *testing.T) {
			if r.Busy {
				busy := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
				must(t, busy.Start())
				defer func() { _, _ = busy.Process.Kill(), busy.Wait() }()
			}
			for _, out := range r.boot(t, uml.Machine{
				MemoryMiB: stockMemoryMiB, Stock: strings.TrimSuffix(root, ".ext4"),
				DiskBytesPerSecond: diskBytesPerSecond, DiskRequestsPerSecond: diskRequestsPerSecond,
				Disks: []string{thrashCheckout(t, tests, r), r.data(t)},
			}) {
				if out.Ended != r.By || len(out.Others) > 0 {
					t.Errorf("%+v, want %s first", out, r.By)
				}
				t.Logf("%s: by %s, longest gap %.2f s, met %.2f s, chosen +%.2f, gone +%.2f, least memory %d MiB, %d major faults", r, out.Ended, out.GapSeconds,
					out.CrossedSeconds, out.ChosenSeconds-out.CrossedSeconds, out.GoneSeconds-out.CrossedSeconds, out.AvailableMiB, out.MajorFaults)
			}
		})
	}
}

// TestThrash is the whole table so many times as EVICTD_THRASH says, or the runs that EVICTD_TEST_THRASH lists.
func TestThrash(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("EVICTD_THRASH"))
	only := os.Getenv(thrashEnv)
	if rounds == 0 && only == "" {
		t.Skip("boots nodes for hours: run make thrash")
	}
	uml.Require(t)
	runs := everyThrash()
	if only != "" {
		runs = nil
		must(t, json.Unmarshal([]byte(only), &runs))
	}
	cache, err := os.UserCacheDir()
	must(t, err)
	root := strings.TrimSpace(run(t, "./rootfs.sh", filepath.Join(cache, "evictd", "guest"), nodes[0].suite))
	kernel := strings.TrimSpace(run(t, "../../harness/uml/kernel.sh", filepath.Join(cache, "evictd", "guest-kernel")))
	tests := filepath.Join(t.TempDir(), "guest.test")
	uml.BuildTests(t, tests)
	var all []thrashed
	lost, unprotected := 0, 0
	for _, r := range runs {
		t.Run(r.String(), func(t *testing.T) {
			for range max(rounds, 1) {
				for _, out := range r.boot(t, uml.Machine{
					MemoryMiB: thrashMemoryMiB, Root: root, Kernel: kernel, Arguments: []string{"psi=1"},
					DiskBytesPerSecond: diskBytesPerSecond, DiskRequestsPerSecond: diskRequestsPerSecond,
					Disks: []string{thrashCheckout(t, tests, r), r.data(t)},
				}) {
					first := out.Ended == r.By && len(out.Others) == 0
					late := rounds > 0 && out.GoneSeconds > out.CrossedSeconds+3 // times mean something on an idle machine
					if r.Case == "" {
						all = append(all, out)
						writeThrashed(t, all)
					}
					switch {
					case r.Case != "":
						if len(out.Others) > 0 {
							t.Errorf("%q went, want none", out.Others)
						}
					case r.Headroom != "":
						if !first {
							t.Errorf("%+v, want evictd first", out)
						}
					case r.By != "evictd" || r.Threshold != "100Mi": // 5 % may lie below what is never used up before the kernel kills
					case !r.Protected:
						unprotected++
						if !first {
							lost++
						}
					case !first || late || out.MajorFaults > 20:
						t.Errorf("%+v, want evictd first, 3 s after the crossing at most, with 20 major faults at most", out)
					}
				}
			}
		})
	}
	if lost*9 > unprotected*2 {
		t.Errorf("without protection evictd was too late in %d of %d runs, want 2 of 9 at most", lost, unprotected)
	}
}

// boot runs r on a node of its own, and writes the series of each round to a file.
func (r thrash) boot(t *testing.T, m uml.Machine) (rounds []thrashed) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(thrashFile), "series")
	must(t, os.MkdirAll(dir, 0o755))
	var series strings.Builder
	for line := range strings.Lines(uml.Run(t, m)) {
		if _, row, is := strings.Cut(line, seriesMark); is {
			series.WriteString(row)
		}
		_, text, is := strings.Cut(line, thrashMark)
		if !is {
			continue
		}
		var out thrashed
		must(t, json.Unmarshal([]byte(text), &out))
		file, err := os.CreateTemp(dir, strings.ReplaceAll(r.String(), " ", "-")+"-*.txt")
		must(t, err)
		_, err = fmt.Fprintf(file, "# %s, longest gap %.1f s, gone at %.1f s by %s\n%s", r, out.GapSeconds, out.GoneSeconds, out.Ended, series.String())
		must(t, errors.Join(err, file.Close()))
		rounds = append(rounds, out)
		series.Reset()
	}
	if len(rounds) == 0 {
		t.Error("the node has no results")
	}
	return rounds
}

// writeThrashed writes the results as a table, runs of a kind together.
func writeThrashed(t *testing.T, all []thrashed) {
	t.Helper()
	type row struct {
		of         thrash
		Name, Peer string
		Values     map[string]float64
	}
	var rows []row
	find := func(of thrash) int { return slices.IndexFunc(rows, func(r row) bool { return r.of == of }) }
	for _, r := range all {
		at := find(r.thrash)
		if at < 0 {
			at, rows = len(rows), append(rows, row{r.thrash, r.String(), "", map[string]float64{}})
		}
		v := rows[at].Values
		v["runs"]++
		if v["first"] += 0; r.Ended == r.By {
			v["first"]++
		}
		for key, value := range map[string]float64{"gap_s": r.GapSeconds, "gone_s": r.GoneSeconds, "faults": float64(r.MajorFaults)} {
			v[key] = max(v[key], value)
		}
		if r.CrossedSeconds > 0 {
			v["end_s"] = max(v["end_s"], r.GoneSeconds-r.CrossedSeconds)
		}
	}
	for i, r := range rows {
		if peer := find(thrash{By: "earlyoom", RateMiB: r.of.RateMiB, Hot: r.of.Hot}); peer >= 0 && r.of.By == "evictd" {
			rows[i].Peer, r.Values["ratio"] = "earlyoom's gap", r.Values["gap_s"]/rows[peer].Values["gap_s"]
		}
	}
	text, err := json.Marshal(map[string]any{
		"title": "A node that thrashes: a hog grows without a limit, seconds",
		"rows":  rows,
		"notes": []string{
			fmt.Sprintf("%d MiB, one CPU, cgroup v2, a disk of %d MiB and %d requests a second, in User-Mode Linux. Two pods have 24 MiB of data in use, hot ones 200 MiB. The hog fills the memory up to %d MiB, with a threshold of headroom up to %d, then grows at its rate in MiB/s.", thrashMemoryMiB, diskBytesPerSecond>>20, diskRequestsPerSecond, leaveMiB, leaveHeadroomMiB),
			"First: not the kernel's OOM killer. Gap: the longest time in which a service had no round through its 40 MiB. Gone: when the hog was, from the beginning of its growth; end: from the crossing of the threshold. Each is the worst of its runs. With protection 5 % lies below the cache that is protected, and is never met on this kernel; on Debian's 6.12 it was met, 1 s late.",
		},
	})
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(thrashFile), 0o755))
	must(t, os.WriteFile(thrashFile, text, 0o644))
}

//go:embed src/thrash.c
var thrashSource []byte

// thrashCheckout makes the image of what the node gets of this checkout for a run.
func thrashCheckout(t *testing.T, tests string, r thrash) string {
	t.Helper()
	asked, err := json.Marshal(r)
	must(t, err)
	source, program := filepath.Join(t.TempDir(), "thrash.c"), filepath.Join(t.TempDir(), "thrash")
	must(t, os.WriteFile(source, thrashSource, 0o644))
	run(t, "gcc", "-std=gnu11", "-O2", "-Wall", "-Werror", "-static", "-pipe", "-o", program, source)
	return checkout(t, tests, nodes[0].driver, func(dir string) {
		run(t, "cp", program, filepath.Join(dir, "thrash"))
		file, err := os.OpenFile(filepath.Join(dir, "environment"), os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		_, err = fmt.Fprintf(file, "%s=%s\n", thrashEnv, strconv.Quote(string(asked)))
		must(t, err)
		must(t, file.Close())
	})
}

// data makes the image with the data of the node's services, and for a case a file that no cgroup has in its cache, and room.
func (r thrash) data(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	block := bytes.Repeat([]byte("evictd"), 1<<20/6)
	files := map[string]int{"service": 40, "calm1": 100, "calm2": 100}
	if r.Case != "" {
		files["own"], files["room"] = 100, 250
	}
	for name, mib := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), bytes.Repeat(block, mib+1), 0o644))
	}
	return image(t, dir)
}

// TestGuestThrash is one run, inside.
func TestGuestThrash(t *testing.T) {
	uml.In(t)
	asked := os.Getenv(thrashEnv)
	if asked == "" {
		t.Skip("another story is played")
	}
	t.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
	out := thrashed{}
	must(t, json.Unmarshal([]byte(asked), &out.thrash))
	// What measures must not wait for its own pages, nor be killed for them.
	must(t, unix.Mlockall(unix.MCL_CURRENT|unix.MCL_FUTURE|unix.MCL_ONFAULT))
	must(t, os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0o644))
	sh(t, "mkdir -p /data && mount /dev/*dc /data")
	s, err := stack.Attach(t.Context(), true)
	must(t, err)
	must(t, s.Import(t.Context(), stack.BusyboxImage(hog.Image, map[string]string{"/bin/thrash": "/checkout/thrash"})))

	pods := map[string]*stack.Pod{}
	runPod := func(name string, number, requestMiB int, script string) {
		manifest, err := stack.ReadManifest(fmt.Appendf(nil, thrashManifest, name, number, hog.Image, script, requestMiB))
		must(t, err)
		pods[name], err = s.RunPod(t.Context(), manifest)
		must(t, err)
	}
	for i, name := range []string{"calm1", "calm2"} {
		if out.Hot {
			runPod(name, i, 100, fmt.Sprintf("exec /bin/thrash read /data/%s 100 500 >/dev/null", name))
		} else {
			runPod(name, i, 12, fmt.Sprintf("exec /bin/thrash map /data/%s 12 100 >/dev/null", name))
		}
	}
	evictors := out.begin(t)
	sh(t, "systemd-run -q --unit=service -p StandardOutput=file:/run/service.log /checkout/thrash read /data/service 40 50")
	for round := range max(out.Rounds, 1) {
		out := thrashed{thrash: out.thrash}
		out.Rounds = 0 // this is one of them
		began, name, request := time.Now(), fmt.Sprint("hog", round), 10
		if out.Case == "grows" {
			request = 400
		}
		if out.Case == "" || round == 0 {
			runPod(name, 2+round, request, "exec sleep 100000")
			sh(t, "sync; echo 3 >/proc/sys/vm/drop_caches")
			time.Sleep(4 * time.Second) // the data of service and pods is in memory
		}
		sampler := exec.Command("/checkout/thrash", append([]string{"sample", "/run/samples"}, evictors...)...)
		must(t, sampler.Start())
		must(t, os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", sampler.Process.Pid), []byte("-1000"), 0o644))
		gone := int64(0)
		if out.Case == "" {
			gone = out.runHog(t, pods[name], evictors)
			time.Sleep(8 * time.Second) // the node recovers
		} else {
			if round == 0 {
				inBackground(t, pods[name], out.prepare(t, pods[name]))
			}
			time.Sleep(time.Duration(cmp.Or(out.Seconds, 40)) * time.Second)
		}
		must(t, sampler.Process.Signal(unix.SIGTERM))
		must(t, sampler.Wait())
		for other, p := range pods {
			if running, err := p.Running(t.Context()); (other != name || out.Case != "") && (err != nil || !running) {
				out.Others = append(out.Others, other)
			}
		}
		out.evaluate(t, gone)
		if out.Killed {
			out.PluginsSeconds = sinceStart(t, `'"plugin started","plugin":"memory"'`) - sinceStart(t, "'Starting evictd'")
		}
		text, err := json.Marshal(out)
		must(t, err)
		fmt.Println(thrashMark + string(text))
		if out.By == "evictd" {
			t.Logf("evictd:\n%s", sh(t, "journalctl -u evictd -o short-monotonic --no-pager --since "+began.Format("15:04:05")))
		}
		if gone > 0 {
			delete(pods, name)
		}
		if len(out.Others) > 0 {
			break // another round would have another load
		}
	}
	t.Logf("kernel:\n%s", sh(t, "dmesg | grep -iE 'oom-kill|killed process' || :"))
}

// runHog runs the hog in the pod, and returns when it was gone, as awaitHog does.
func (r thrash) runHog(t *testing.T, p *stack.Pod, evictors []string) (gone int64) {
	t.Helper()
	must(t, os.RemoveAll(hogLog))
	leave := leaveMiB
	if r.Headroom != "" {
		leave = leaveHeadroomMiB
	}
	inBackground(t, p, fmt.Sprintf("exec /bin/thrash hog %d 60 %d >%s 2>&1", leave, r.RateMiB, hogLog))
	if r.Killed {
		eventually(t, "the hog has begun to grow", func() bool { return len(readNumbers(t, hogLog)) > 0 })
		sh(t, "busybox kill -KILL "+evictors[0])
	}
	return r.awaitHog(t)
}

// hogLog gets the time from which the hog grows at its rate.
const hogLog = "/data/hog.log"

func inBackground(t *testing.T, p *stack.Pod, script string) {
	t.Helper()
	must(t, p.Exec(t.Context(), "main", fmt.Sprintf("(%s) </dev/null >/dev/null 2>&1 &", script)))
}

// sinceStart returns the seconds from the boot to the last line of evictd's journal that has the text.
func sinceStart(t *testing.T, text string) (seconds float64) {
	t.Helper()
	_, err := fmt.Sscanf(sh(t, "journalctl -u evictd -o short-monotonic --no-pager | grep "+text+" | tail -n 1"), "[%f]", &seconds)
	must(t, err)
	return seconds
}

const thrashManifest = `apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: thrash, uid: 11111111-0000-4000-8000-%012[2]d}
spec:
  priority: 0
  volumes: [{name: data, hostPath: {path: /data}}]
  containers:
  - {name: main, image: %[3]q, command: ["/bin/sh", "-c", %[4]q], resources: {requests: {memory: %[5]dMi}}, volumeMounts: [{name: data, mountPath: /data}]}
`

// begin starts who is to end the hog, and returns the ids of its processes, the one that decides first.
func (r thrash) begin(t *testing.T) (pids []string) {
	t.Helper()
	switch r.By {
	case "evictd":
		t.Logf("%s", sh(t, "cd /checkout && sh -ex install.sh 2>&1 && systemctl stop evictd"))
		config := readYAML(t, asInstalled)
		config["dryRun"], config["evictionSoft"], config["evictionSoftGracePeriod"] = false, nil, nil
		hard := map[string]any{"memory.available": r.Threshold}
		if r.Headroom != "" {
			hard["evictd.io/memory.headroom"] = r.Headroom
			sh(t, "ln -s /usr/bin/evictd /usr/libexec/evictd/plugins/pressure")
		}
		config["evictionHard"] = hard
		writeYAML(t, installed, config)
		sh(t, "systemctl start evictd")
		awaitUp(t, "memory")
		if r.Headroom != "" {
			awaitUp(t, "pressure")
		}
		if r.Protected {
			t.Logf("%s", sh(t, "evictctl protect-node --write 2>&1"))
		}
		host := sh(t, "systemctl show -p MainPID --value evictd")
		return append([]string{host}, slices.DeleteFunc(pidsOf(t, "evictd"), func(pid string) bool { return pid == host })...)
	case "earlyoom":
		sh(t, "systemd-run -q --unit=eoom -p OOMScoreAdjust=-100 -p Nice=-20 /usr/bin/earlyoom -r 0")
		eventually(t, "earlyoom runs", func() bool { return len(pidsOf(t, "earlyoom")) == 1 })
		return pidsOf(t, "earlyoom")
	case "oomd":
		sh(t, "systemctl set-property --runtime kubepods.slice ManagedOOMMemoryPressure=kill; rm -f /etc/systemd/system/systemd-oomd.service /etc/systemd/system/systemd-oomd.socket; systemctl daemon-reload; systemctl start systemd-oomd")
		return pidsOf(t, "systemd-oomd")
	}
	return nil
}

// ballastMiB is the memory that is in use meanwhile, so that the page cache is short.
const ballastMiB = 150

// harmless are loads that stall or refault, and of which no pod must go.
var harmless = map[string]string{
	// A pod at its own limit reads more than fits.
	"limit": "exec /bin/thrash read /data/own 100 10",
	// A backup reads and writes all the time.
	"backup": "while :; do busybox cp /data/own /data/copy; busybox cp /data/copy /data/copy2; done",
	// A pull writes a blob, unpacks it and removes both.
	"pull": "while :; do busybox cp /data/own /data/blob; busybox sync; busybox cp /data/blob /data/layer; busybox sync; busybox rm /data/blob /data/layer; done",
	// The same as a backup on a node that has swap.
	"swap": "while :; do busybox cp /data/own /data/copy; done",
	// A log storm writes and syncs.
	"logs": "while :; do busybox dd if=/dev/zero of=/data/log bs=4k count=4000 conv=fsync; done",
	// A build starts jobs, which allocate and exit.
	"build": "while :; do for i in 1 2 3 4 5 6 7 8; do busybox dd if=/dev/zero of=/dev/null bs=4M count=20 & done; wait; done",
	// A database reads a hot cache that just fits.
	"database": "exec /bin/thrash read /data/own 100 20",
	// A pod grows within its request while another copies.
	"grows": "(while :; do busybox cp /data/own /data/copy; done) & exec /bin/thrash hog 200 3 1",
}

// prepare makes the node ready for the case, and returns the case's script.
func (r thrash) prepare(t *testing.T, p *stack.Pod) string {
	t.Helper()
	script, known := harmless[r.Case]
	if !known {
		t.Fatalf("case %q, want one of %q", r.Case, slices.Sorted(maps.Keys(harmless)))
	}
	sh(t, fmt.Sprintf("rm /data/room; mkdir /run/ballast; mount -t tmpfs none /run/ballast; head -c %dM /dev/zero >/run/ballast/of", ballastMiB))
	if r.Case == "swap" {
		sh(t, "cp /data/calm1 /data/swapped; chmod 600 /data/swapped; busybox mkswap /data/swapped; busybox swapon /data/swapped")
	}
	if r.Case == "limit" {
		must(t, os.WriteFile(filepath.Join("/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice", p.CgroupParent, "memory.max"), []byte("60M"), 0o644))
	}
	return script
}

func pidsOf(t *testing.T, program string) (pids []string) {
	t.Helper()
	for _, exe := range processes(t, program) {
		pids = append(pids, filepath.Base(filepath.Dir(exe)))
	}
	return pids
}

// awaitHog waits for the end of the hog's process, and returns when that was, in milliseconds since the boot.
func (r thrash) awaitHog(t *testing.T) (at int64) {
	t.Helper()
	var memory *os.File
	eventually(t, "the hog runs", func() bool {
		for _, pid := range pidsOf(t, "thrash") {
			if args, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && strings.HasPrefix(string(args), "/bin/thrash\x00hog") {
				memory, err = os.Open("/proc/" + pid + "/statm")
				return err == nil
			}
		}
		return false
	})
	defer memory.Close()
	raw := make([]byte, 64)
	for until := time.Now().Add(thrashMost); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if n, err := memory.ReadAt(raw, 0); n == 0 && err != nil || bytes.HasPrefix(raw, []byte("0 ")) {
			return monotonicMS(t)
		}
	}
	return 0
}

func monotonicMS(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return now.Nano() / 1e6
}

// evaluate reads what the sampler, the service and the hog have written.
func (r *thrashed) evaluate(t *testing.T, gone int64) {
	t.Helper()
	from := hogLog
	if r.Case != "" {
		from = "/run/samples"
	}
	zero := gone // memory.available may be short while MemAvailable is not: hot cache counts as used
	if began := readNumbers(t, from); len(began) > 0 {
		zero = began[0][0]
	}
	since := func(ms int64) float64 { return float64(ms-zero) / 1000 }
	if r.Ended = "no one"; gone > 0 {
		r.GoneSeconds, r.Ended = since(gone), cmp.Or(r.By, "kernel")
	}
	if r.By == "evictd" && gone > 0 {
		var last struct{ Time time.Time }
		must(t, json.Unmarshal([]byte(sh(t, `journalctl -u evictd -o cat --no-pager | grep '"msg":"evicting pod"' | tail -n 1`)), &last))
		r.ChosenSeconds = since(monotonicMS(t) - time.Since(last.Time).Milliseconds())
	}
	const ms, total, free, anon, file, inactive, kills, refaults, scans, full, faults, pages = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 // columns of the samples
	samples := readNumbers(t, "/run/samples")
	first, memoryMiB := samples[0], int(samples[0][total]>>10)
	threshold := thresholdMiB(t, r.Threshold, memoryMiB)
	r.AvailableMiB, r.LeastMiB = memoryMiB, memoryMiB
	met := false
	for i, row := range samples {
		if row[kills] > samples[0][kills] && (gone == 0 || row[ms] <= gone+50) {
			r.Ended = "kernel"
		}
		if i%4 == 0 { // ten a second
			fmt.Printf("%s%d %d %d %d %d %d\n", seriesMark, row[ms]-zero, min(row[free]<<10, row[total]<<10-row[anon]-row[file]+row[inactive])>>20, row[free]>>10, row[refaults], row[scans], row[full])
		}
		if row[ms] < zero {
			first = row
			continue
		}
		// As the kubelet has it: what the kernel itself uses is not used.
		available := int(min(row[free]<<10, row[total]<<10-row[anon]-row[file]+row[inactive]) >> 20)
		r.AvailableMiB = min(r.AvailableMiB, available)
		short := available < threshold
		if short && !met && (gone == 0 || row[ms] < gone) {
			r.CrossedSeconds = since(row[ms])
		}
		met = short
		if len(row) > pages {
			r.MajorFaults, r.LeastMiB = int(row[faults]-first[faults]), min(r.LeastMiB, int(row[pages]>>8))
		}
	}
	last := zero
	for _, row := range readNumbers(t, "/run/service.log") {
		if row[0] > zero {
			last, r.GapSeconds = row[0], max(r.GapSeconds, float64(row[1])/1000)
			if row[1] >= 1000 {
				fmt.Printf("%sgap %d %d\n", seriesMark, row[0]-row[1]-zero, row[0]-zero)
			}
		}
	}
	const line = 1000 // it writes one each second
	if silent := monotonicMS(t) - last; silent > 2*line {
		r.GapSeconds = max(r.GapSeconds, float64(silent)/1000)
	}
}

func thresholdMiB(t *testing.T, threshold string, memoryMiB int) int {
	t.Helper()
	if percent, ok := strings.CutSuffix(threshold, "%"); ok {
		n, err := strconv.Atoi(percent)
		must(t, err)
		return memoryMiB * n / 100
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(threshold, "Mi"))
	return n
}

// readNumbers reads the lines of a file that are numbers.
func readNumbers(t *testing.T, file string) (rows [][]int64) {
	t.Helper()
	raw, err := os.ReadFile(file)
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		var row []int64
		for field := range strings.FieldsSeq(line) {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				row = nil
				break
			}
			row = append(row, n)
		}
		if len(row) > 0 {
			rows = append(rows, row)
		}
	}
	return slices.Clip(rows)
}
