package upstream

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A mutant is a fault of the adapter.
type mutant struct {
	file, was, is string
	// caught is the package of the kubelet whose tests find it; else it is the adapter
	// whose own do.
	caught string
}

var mutants = map[string]mutant{
	"soft thresholds are hard":                  {"thresholds.go", ", GracePeriod: t.GracePeriod}", "}", "eviction"},
	"min reclaim is lost":                       {"thresholds.go", "all[i].MinReclaim = &least", "_ = least", "eviction"},
	"the longest grace period is lost":          {"kubelet.go", "int32(k.MaxPodGracePeriodSeconds)", "0", "eviction"},
	"limits of local storage are not looked at": {"kubelet.go", "= k.LocalStorageCapacityIsolation", "= false", "eviction"},
	"garbage of images is not collected":        {"manager.go", `"image-gc": k.ImageGC.DeleteUnusedImages`, `"image-gc": k.ContainerGC.DeleteAllUnusedContainers`, "eviction"},
	"a shortage is any reason":                  {"preemption.go", "r.(*lifecycle.InsufficientResourceError); ok {", "r.(*lifecycle.InsufficientResourceError); ok && false {", "preemption"},
	"gates are off":                             {"settings.go", "utilfeature.DefaultFeatureGate.Enabled(name)", "false", ""},
	"half the transition period":                {"kubelet.go", "= k.PressureTransitionPeriod", "= k.PressureTransitionPeriod / 2", ""},
	"evictions are not counted":                 {"metrics.go", "metrics.Evictions.WithLabelValues(string(s)).Inc()", "", ""},
}

// A fault of the adapter would have to be found by the kubelet's tests or the adapter's own.
func TestMutants(t *testing.T) {
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("its minute is part of make nightly")
	}
	dir := build(t)
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			overlay := m.overlay(t, dir)
			mods := []string{"-trimpath", "-vet=off", "-tags", os.Getenv(envTag), "-modfile", filepath.Join(dir, "kubelet.mod"), "-overlay", overlay}
			if m.caught == "" {
				out, err := goTest(t, append(mods, "-count=1", "../adapter")...)
				switch {
				case err == nil:
					t.Error("the adapter's tests do not find it")
				case !strings.Contains(out, "--- FAIL"):
					t.Fatalf("it does not build:\n%s", out)
				}
				return
			}
			at := t.TempDir()
			program := filepath.Join(at, m.caught+".test")
			if out, err := goTest(t, append(mods, "-ldflags=-s -w", "-c", "-o", program, "k8s.io/kubernetes/pkg/kubelet/"+m.caught)...); err != nil {
				t.Fatalf("it does not build: %v\n%s", err, out)
			}
			if err := os.Symlink(filepath.Join(dir, "kubernetes"), filepath.Join(at, "kubernetes")); err != nil {
				t.Fatal(err)
			}
			passed, _ := run(t, at, m.caught, ".", configured(t, filepath.Join(at, "none")))
			if len(passed) == 0 {
				t.Fatal("no test has ended")
			}
			found := 0
			for test, e := range expectations(t) {
				if of, name, _ := strings.Cut(test, " "); of == m.caught && !e.fails && !passed[name] {
					found++
				}
			}
			if found == 0 {
				t.Errorf("the kubelet's tests do not find it")
			}
			t.Logf("%d of the kubelet's tests find it", found)
		})
	}
}

// overlay is the tests' overlay with the fault in it.
func (m mutant) overlay(t *testing.T, dir string) string {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("../adapter", m.file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), m.was); n != 1 {
		t.Fatalf("%s has %q %d times, want once", m.file, m.was, n)
	}
	wrong := filepath.Join(t.TempDir(), m.file)
	if err := os.WriteFile(wrong, []byte(strings.Replace(string(text), m.was, m.is, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	var all struct{ Replace map[string]string }
	text, err = os.ReadFile(filepath.Join(dir, "overlay.json"))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	all.Replace[source] = wrong
	if text, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func goTest(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", append([]string{"test"}, args...)...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := c.CombinedOutput()
	return string(out), err
}
