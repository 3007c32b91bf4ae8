package adapter

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/component-base/version"

	"github.com/evictd/evictd/host"
)

// envAsk has the test program answer what becomes of a kubelet with its environment.
const envAsk = "EVICTD_TEST_ASK"

func answer() {
	if Off() {
		fmt.Println("the kubelet's own manager")
		return
	}
	if _, err := settings(); err != nil {
		Failed(err)
		fmt.Println("the kubelet's own manager instead")
		return
	}
	if os.Getenv(envAsk) == "later" {
		Failed(errors.New("the run directory is gone"))
		if Off() { // preemption goes with it
			fmt.Println("the kubelet's own manager from now on")
		}
		return
	}
	fmt.Println("evictd")
}

// A kubelet whose evictd could not run would run without an eviction manager.
func TestWhatRunsInAKubelet(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "evictd.yaml")
	if err := os.WriteFile(wrong, []byte("pacing: brisk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const exits = "exit status 1"
	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"nothing said":                   {nil, "evictd"},
		"on":                             {[]string{"EVICTD=on"}, "evictd"},
		"auto":                           {[]string{"EVICTD=auto"}, "evictd"},
		"off":                            {[]string{"EVICTD=off"}, "the kubelet's own manager"},
		"off with a wrong file":          {[]string{"EVICTD=off", "EVICTD_CONFIG=" + wrong}, "the kubelet's own manager"},
		"a wrong file":                   {[]string{"EVICTD_CONFIG=" + wrong}, exits},
		"auto with a wrong file":         {[]string{"EVICTD=auto", "EVICTD_CONFIG=" + wrong}, "the kubelet's own manager"},
		"auto without the file":          {[]string{"EVICTD=auto", "EVICTD_CONFIG=/nowhere/evictd.yaml"}, "the kubelet's own manager"},
		"a word that is none":            {[]string{"EVICTD=of"}, exits},
		"it ends while the kubelet runs": {[]string{envAsk + "=later"}, exits},
		"so it does with auto":           {[]string{envAsk + "=later", "EVICTD=auto"}, "the kubelet's own manager from now on"},
	} {
		t.Run(name, func(t *testing.T) {
			program := exec.CommandContext(t.Context(), os.Args[0])
			program.Env = append(append(os.Environ(), envAsk+"=now", EnvMode+"=", EnvConfig+"="), c.env...)
			var problem strings.Builder
			program.Stderr = &problem
			out, err := program.Output()
			got := strings.TrimSpace(string(out))
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%q, want %q:\n%s", got, c.want, &problem)
			}
			if got == exits && !strings.Contains(problem.String(), "EVICTD=auto would have the kubelet's own eviction manager run") {
				t.Errorf("it does not say what would help:\n%s", &problem)
			}
		})
	}
}

// A pod would be evicted, or not, as another version of the kubelet does.
func TestTheDecisionsAreThoseOfTheKubeletsVersion(t *testing.T) {
	c, err := settings()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"PodLevelResources": true}
	if c.Compatibility >= "1.37" {
		want["PodLevelResourcesFixKubeletQOSClass"], want["HugepageAwareEviction"] = true, true
		want["InPlacePodVerticalScalingMemoryBackedVolumes"] = false
	}
	if c.Compatibility != version.DefaultKubeBinaryVersion || !maps.Equal(c.FeatureGates, want) {
		t.Errorf("%s, %v, want %s, %v", c.Compatibility, c.FeatureGates, version.DefaultKubeBinaryVersion, want)
	}
}

// A kubelet of another runtime that did not tell evictd so was ready, and nobody was ever
// evicted.
func TestAKubeletSaysWhereItsRuntimeIs(t *testing.T) {
	there := filepath.Join(t.TempDir(), "crio.sock")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := host.Config{Source: "native", RuntimeEndpoint: "unix:///nowhere/containerd.sock"}
	if err := knowsItsRuntime(c); err == nil || !strings.Contains(err.Error(), "runtimeEndpoint: stat /nowhere/containerd.sock") {
		t.Errorf("%v, want the socket named", err)
	}
	c.Source = sourceSummary
	if err := knowsItsRuntime(c); err != nil {
		t.Errorf("%v with the kubelet's own figures", err)
	}
	c.Source, c.RuntimeEndpoint = "native", "unix://"+there
	if err := knowsItsRuntime(c); err != nil {
		t.Errorf("%v although it is there", err)
	}
}
