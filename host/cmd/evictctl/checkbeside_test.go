package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/shared/testos"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out into testdata instead of comparing")

const kubeletsFile = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: RUNTIME
kubeReserved: {memory: 500Mi, cpu: 100m}
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, nodefs.inodesFree: 5%, imagefs.available: 15%, imagefs.inodesFree: 5%}
`

// The same of a kubelet, as its /configz answers.
const configz = `{"kubeletconfig": {"kubeReserved": {"memory": "500Mi", "cpu": "100m"}, "failCgroupV1": false, "containerRuntimeEndpoint": "RUNTIME", "evictionHard":
	{"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%"}}}`

// beside runs check beside a kubelet with a directory of drop-ins, "" for none, on a node of which nothing can be read. RUNTIME is its socket.
func beside(t *testing.T, kubelet, dropIns string, more ...string) (got result, file string) {
	t.Helper()
	n := newNode(t)
	file = filepath.Join(n.dir, "kubelet.yaml")
	testos.WriteFile(t, file, strings.ReplaceAll(kubelet, "RUNTIME", "unix://"+n.socket), 0o600)
	n.runtime.SetImageDir("/") // of the root directory
	return n.with("rootDir", n.dir).with("kubeletRootDir", "/").check(t, append(more, "--beside-kubelet", file, "--beside-kubelet-dir", dropIns)...), file
}

var ownThresholds = []string{"--eviction-hard", "memory.available<1Gi,pid.available<5%,nodefs.available<1%", "--eviction-soft", "memory.available<2Gi", "--eviction-soft-grace-period", "memory.available=1m30s"}

func TestCheckSaysHowItGetsAlongWithTheKubelet(t *testing.T) {
	for name, more := range map[string][]string{"checkbeside.txt": nil, "checkbeside.json": {"--json"}} {
		for _, kubelet := range []string{kubeletsFile, configz} {
			got, _ := beside(t, kubelet, "", append(ownThresholds, more...)...)
			if got.Code != 0 {
				t.Errorf("exit code %d: %s", got.Code, got.Errors)
			}
			file := filepath.Join("testdata", name)
			out := regexp.MustCompile(`% \([0-9]+(Mi)?\)`).ReplaceAllString(got.Out, "% (of this machine)")
			if *rewrite {
				testos.WriteFile(t, file, out, 0o600)
				continue
			}
			golden := testos.ReadFile(t, file)
			if diff := cmp.Diff(string(golden), out); diff != "" {
				t.Errorf("%s (-want +got), run with -rewrite if it should be so:\n%s", file, diff)
			}
			// Each line to fix came as a warning, too.
			const want = "evictctl: warning: besideKubelet: 4 to fix, see above\n"
			if all := got.Out + got.Errors; !strings.Contains(got.Errors, want) || strings.Count(all, "PIDPressure is not reported: the scheduler keeps placing pods here") != 1 || strings.Count(got.Errors, "besideKubelet") != 1 {
				t.Errorf("%s, want each finding once, and %s", all, want)
			}
		}
	}
}

func TestCheckWithWhatIsNoKubeletsConfiguration(t *testing.T) {
	for name, c := range map[string]struct{ kubelet, want string }{
		"evictd's own":             {"evictionHard: {memory.available: 1Gi}\n", `FILE: apiVersion: not given, want "kubelet.config.k8s.io/v1beta1"`},
		"an amount that is none":   {strings.Replace(kubeletsFile, "500Mi", "much", 1), `FILE: kubeReserved["memory"]: "much": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; want a quantity such as "500Mi"`},
		"a threshold that is none": {strings.Replace(kubeletsFile, "100Mi", "much", 1), `FILE: evictionHard["memory.available"]: "much": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; want a quantity such as "1Gi" or a percentage such as "10%"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, file := beside(t, c.kubelet, "")
			want := "evictctl: besideKubelet: " + strings.Replace(c.want, "FILE", file, 1) + "\n"
			if !strings.HasPrefix(got.Errors, want) || got.Code != command.ExitUsage || got.Out != "" {
				t.Errorf("exit code %d, %s\nwant %d, %s", got.Code, got.Errors, command.ExitUsage, want)
			}
		})
	}
	// A file that is not there hid what else the node has elsewhere.
	n := newNode(t)
	n.runtime.Die()
	if got := n.with("besideKubelet", "/nonexistent/kubelet.yaml").check(t); got.Code != command.ExitFailure || got.Out == "" ||
		strings.Count(got.Errors, "besideKubelet: /nonexistent/kubelet.yaml: no such file or directory") != 1 || !strings.Contains(got.Errors, "runtimeEndpoint: ") {
		t.Errorf("a file that is not there: %+v", got)
	}
	// The chart's path is not on every node, and check said of a pod that works that its node is not ready.
	n = newNode(t)
	if got := n.with("besideKubelet", "/nonexistent/kubelet.yaml").check(t); got.Code != 0 ||
		strings.Count(got.Errors, "evictctl: warning: besideKubelet: /nonexistent/kubelet.yaml: no such file or directory\n") != 1 {
		t.Errorf("a configured file that is not there: %+v", got)
	}
	if got := n.check(t, "--beside-kubelet", "/nonexistent/kubelet.yaml"); got.Code != command.ExitUsage || got.Errors != "evictctl: besideKubelet: /nonexistent/kubelet.yaml: no such file or directory\n" {
		t.Errorf("a file asked for that is not there: %+v", got)
	}
	n = newNode(t)
	if got := n.with("besideKubelet", "kubelet.yaml").check(t); got.Errors != "evictctl: "+n.dir+`/evictd.yaml: besideKubelet: "kubelet.yaml": want "running", an absolute path, or "" for none`+"\n" {
		t.Errorf("a relative path: %s", got.Errors)
	}
}

// Pods without cgroups were said nothing of, and the smaller one was evicted first.
func TestCheckTellsOfAKubeletThatGivesPodsNoCgroups(t *testing.T) {
	want := regexp.MustCompile("cgroupsPerQOS +setting +fix +evictd has true, the kubelet false: pods have no cgroups of their own")
	for name, without := range map[string]bool{"true": false, "false": true} {
		fixes := map[bool]int{true: 5, false: 4}[without]
		got, _ := beside(t, kubeletsFile+"cgroupsPerQOS: "+name+"\n", "", ownThresholds...)
		if got.Code != 0 || want.MatchString(got.Out) != without || !strings.Contains(got.Errors, fmt.Sprintf("besideKubelet: %d to fix, see above\n", fixes)) || strings.Contains(got.Out, "\ncgroupsPerQOS: true\n") != without {
			t.Errorf("cgroupsPerQOS %s: exit code %d, %s%s", name, got.Code, got.Errors, got.Out)
		}
	}
}

// A kubelet that writes logs elsewhere got exit 0 and no line: its pods had no logs.
func TestCheckSaysNothingOfAKubeletsOtherDirectory(t *testing.T) {
	got, _ := beside(t, kubeletsFile+"podLogsDir: /logs\n", "", ownThresholds...)
	const want = "evictd has /var/log/pods, the kubelet /logs; want in evictd's file: podLogsDir: \"/logs\"\n"
	if !strings.Contains(got.Errors, "evictctl: warning: besideKubelet: 5 to fix, see above\n") || !regexp.MustCompile("podLogsDir +setting +fix +"+want).MatchString(got.Out) {
		t.Errorf("%s%s", got.Errors, got.Out)
	}
}

// What docs/kubernetes.md shows of both sides is what check makes of the one.
func TestTheDocumentShowsTheSettingsThatCheckPrints(t *testing.T) {
	text := testos.ReadFile(t, "../../../docs/kubernetes.md")
	_, section, _ := strings.Cut(string(text), "\n## Settings of both sides\n")
	blocks := strings.Split(section, "```")
	if len(blocks) < 5 {
		t.Fatal("want two examples")
	}
	var own []string
	for line := range strings.Lines(strings.TrimPrefix(blocks[1], "yaml\n")) {
		if !regexp.MustCompile("^(mode|kubeconfig|besideKubelet):").MatchString(line) { // there is no API server here
			own = append(own, line)
		}
	}
	file := filepath.Join(t.TempDir(), "evictd.yaml")
	testos.WriteFile(t, file, strings.Join(own, ""), 0o600)
	got, _ := beside(t, strings.Replace(kubeletsFile, "nodefs.available: 1%", "nodefs.available: 10%", 1), "", "--config", file)
	_, settings, _ := strings.Cut(got.Out, "# The kubelet's settings that go with this configuration:\n")
	if diff := cmp.Diff(strings.TrimPrefix(blocks[3], "yaml\n"), settings); diff != "" || got.Code != 0 {
		t.Errorf("%s(-document +check):\n%s", got.Errors, diff)
	}
}
