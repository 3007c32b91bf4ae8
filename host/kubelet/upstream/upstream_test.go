package upstream

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// envDir is where generate -tests has written to, and where the tests were built. envRepeat
// is how often they run, once if it is empty, envTag the build tag of the release that they are of.
const (
	envDir    = "EVICTD_TEST_KUBELET"
	envTag    = "EVICTD_TEST_KUBELET_TAG"
	envRepeat = "EVICTD_TEST_REPEAT"
)

var packages = []string{"eviction", "preemption"}

// build is the directory of envDir; without one there is nothing to be tested.
func build(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(envDir)
	if dir == "" {
		t.Skip(envDir + " is not set: make kubelet-test")
	}
	return dir
}

// An expectation says of a test of the kubelet whether it comes to evictd, and what becomes
// of it there.
type expectation struct {
	reaches, fails bool
	why            string
}

// expectations are by package and test, of the release that is tested.
func expectations(t *testing.T) map[string]expectation {
	t.Helper()
	text, err := os.ReadFile("testdata/expected.txt")
	if err != nil {
		t.Fatal(err)
	}
	release := "v" + strings.ReplaceAll(strings.TrimPrefix(os.Getenv(envTag), "kubernetes_"), "_", ".")
	all := map[string]expectation{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], "v1.") {
			if fields[4] > release {
				continue
			}
			fields = slices.Delete(fields, 4, 5)
		}
		if len(fields) == 0 {
			continue
		}
		e := expectation{why: strings.Join(fields[min(4, len(fields)):], " ")}
		if len(fields) >= 4 {
			e.reaches, e.fails = fields[2] == "evictd", fields[3] == "fails"
		}
		if len(fields) < 4 || e.fails != (e.why != "") || e.fails && !e.reaches {
			t.Fatalf("testdata/expected.txt: %q: want PACKAGE TEST evictd|own passes, or fails with a reason; before it the first release with the test", line)
		}
		all[fields[0]+" "+fields[1]] = e
	}
	return all
}

// tests are the names of the kubelet's tests of a package.
func tests(t *testing.T, dir, of string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, of+".test"), "-test.list", "^Test").Output()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool { return name == own })
}

// run runs tests of a package, and returns which passed and which failed.
func run(t *testing.T, dir, of, which string, env ...string) (passed map[string]bool, log []byte) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(dir, of+".test"))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", which)
	c.Dir = filepath.Join(dir, "kubernetes/pkg/kubelet", of)
	c.Env = append(os.Environ(), env...)
	log, _ = c.CombinedOutput() // what has failed is reported by name
	passed = map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(log)); lines.Scan(); {
		for mark, ok := range map[string]bool{"--- PASS: ": true, "--- FAIL: ": false} {
			if name, found := strings.CutPrefix(lines.Text(), mark); found {
				name, _, _ = strings.Cut(name, " ")
				passed[name] = ok
			}
		}
	}
	return passed, log
}

// configured is the environment for evictd with figures of the summary, as the kubelet's
// tests give one, and with the plugins in a directory.
func configured(t *testing.T, plugins string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "evictd.yaml")
	text := "source: summary\npluginDir: " + plugins + "\nstateDir: " + filepath.Join(filepath.Dir(file), "state") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "EVICTD_CONFIG=" + file
}

// Whatever reaches evictd passes, but for what the table has a reason for; whatever passes
// against expectation is no longer as the table says. The control has the kubelet's own
// manager in the same programs.
func TestTheKubeletsTests(t *testing.T) {
	dir := build(t)
	plugins := os.Getenv("EVICTD_TEST_PLUGINS")
	if plugins == "" {
		t.Fatal("EVICTD_TEST_PLUGINS is not set, want the directory of the plugins")
	}
	repeat, _ := strconv.Atoi(os.Getenv(envRepeat)) // 0 if it is none
	expected := expectations(t)
	for name, env := range map[string]string{
		"control": "EVICTD=off", "inside": configured(t, filepath.Join(t.TempDir(), "none")), "processes": configured(t, plugins),
	} {
		t.Run(name, func(t *testing.T) {
			for range max(repeat, 1) {
				good := 0
				left := maps.Clone(expected)
				for _, of := range packages {
					passed, log := run(t, dir, of, ".", env)
					for _, test := range tests(t, dir, of) {
						e, known := left[of+" "+test]
						delete(left, of+" "+test)
						ok, ran := passed[test]
						want := name == "control" || !e.fails
						switch {
						case !known:
							t.Errorf("%s %s is not in the table", of, test)
						case !ran || ok != want:
							t.Errorf("%s %s: ran %v, passed %v, want %v; its part of the log:\n%s", of, test, ran, ok, want, part(log, test))
						}
						if ok {
							good++
						}
					}
				}
				for _, name := range slices.Sorted(maps.Keys(left)) {
					t.Errorf("%s is in the table and is no test any more", name)
				}
				t.Logf("%d of %d pass", good, len(expected))
			}
		})
	}
}

// part returns the part of log that belongs to a test, or the end of log.
func part(log []byte, test string) string {
	_, after, found := strings.Cut(string(log), "=== RUN   "+test+"\n")
	if !found {
		after = string(log[max(0, len(log)-4000):])
	}
	until, _, _ := strings.Cut(after, "=== RUN   Test")
	return fmt.Sprintf("%.4000s", until)
}

// A test comes to evictd if it fails where evictd cannot even read its configuration.
func TestWhichOfTheKubeletsTestsComeToEvictd(t *testing.T) {
	dir := build(t)
	expected := expectations(t)
	for _, of := range packages {
		for _, test := range tests(t, dir, of) {
			t.Run(test, func(t *testing.T) {
				t.Parallel()
				passed, _ := run(t, dir, of, "^"+test+"$", "EVICTD_CONFIG=/nowhere/evictd.yaml")
				if e := expected[of+" "+test]; passed[test] == e.reaches {
					t.Errorf("it comes to evictd: %v, the table says %v", !passed[test], e.reaches)
				}
			})
		}
	}
}
