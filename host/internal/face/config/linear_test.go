package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/evictd/evictd/shared/testos"
)

// large are configurations that an administrator can write, each of n parts.
var large = map[string]func(t testing.TB, n int) []string{
	"drop-ins with other keys": func(t testing.TB, n int) []string {
		return manyDropIns(t, n, func(file, key int) string { return fmt.Sprintf("field%dof%d: {a: 1}\n", key, file) })
	},
	"drop-ins with keys of one mapping": func(t testing.TB, n int) []string {
		return manyDropIns(t, n, func(file, key int) string {
			return strings.Repeat("evictionHard:\n", min(1, 1/(key+1))) + fmt.Sprintf("  field%dof%d: 1Gi\n", key, file)
		})
	},
	"drop-ins with custom signals": func(t testing.TB, n int) []string {
		return manyDropIns(t, n, func(file, key int) string {
			return strings.Repeat("evictionHard:\n", min(1, 1/(key+1))) + fmt.Sprintf("  example.org/s%dof%d: 1Gi\n", key, file)
		})
	},
	"one file of custom signals": func(t testing.TB, n int) []string {
		return ownFile(t, "evictionHard:\n", "  example.org/s%d: 1Gi\n", 2000*n/5)
	},
	"hard and soft thresholds": func(t testing.TB, n int) []string {
		var b strings.Builder
		for _, field := range []string{"evictionHard: {%s}\n", "evictionSoft: {%s}\n", "evictionSoftGracePeriod: {%s}\n"} {
			var in strings.Builder
			for i := range 80 * n {
				value := "1Gi"
				if strings.Contains(field, "Grace") {
					value = "1m"
				}
				fmt.Fprintf(&in, "e.org/s%d: %s, ", i, value)
			}
			fmt.Fprintf(&b, field, in.String())
		}
		return ownFile(t, b.String(), "", 0)
	},
	"unknown fields": func(t testing.TB, n int) []string { return ownFile(t, "", "field%d: 1\n", 800*n) },
	"a long key":     func(t testing.TB, n int) []string { return ownFile(t, strings.Repeat("k", 10000*n)+": 1\n", "", 0) },
	"plugins": func(t testing.TB, n int) []string {
		return ownFile(t, "plugins:\n", "  p%d: {config: {a: 1}}\n", 400*n)
	},
	"one plugin with many settings": func(t testing.TB, n int) []string {
		return ownFile(t, "plugins:\n  p:\n    config:\n", "      a%d: 1\n", 800*n)
	},
	"assignments": func(t testing.TB, n int) []string {
		return ownFile(t, "assign:\n", "  example.org/s%d: {rank: p}\n", 400*n)
	},
	"nested mappings": func(t testing.TB, n int) []string {
		return ownFile(t, "plugins: {p: {config: "+strings.Repeat("{a: ", 100*n)+"1"+strings.Repeat("}", 100*n)+"}}\n", "", 0)
	},
	"a drop-in of nested mappings": func(t testing.TB, n int) []string {
		text := "field: " + strings.Repeat("{a: ", 100*n) + "1" + strings.Repeat("}", 100*n) + "\n"
		return []string{"--kubelet-config", writeKubelet(t, ""), "--kubelet-config-dir", writeDropIns(t, map[string]string{"a.conf": text})}
	},
	"keys given twice": func(t testing.TB, n int) []string { return ownFile(t, "", "dryRun: true #%d\n", 800*n) },
	"feature gates":    func(t testing.TB, n int) []string { return ownFile(t, "featureGates:\n", "  Gate%d: true\n", 800*n) },
	"aliases": func(t testing.TB, n int) []string {
		return ownFile(t, "plugins:\n  p: {config: &a {b: [1]}}\n", "  p%d: {config: *a}\n", 400*n)
	},
}

func manyDropIns(t testing.TB, n int, line func(file, key int) string) []string {
	files, keys := map[string]string{}, 2000
	if _, test := t.(*testing.T); test && os.Getenv("EVICTD_NIGHTLY") == "" {
		keys = 400
	}
	for file := range n {
		var b strings.Builder
		for key := range keys {
			b.WriteString(line(file, key))
		}
		files[fmt.Sprintf("%d.conf", file)] = b.String()
	}
	return []string{"--kubelet-config", writeKubelet(t, ""), "--kubelet-config-dir", writeDropIns(t, files)}
}

func ownFile(t testing.TB, head, line string, n int) []string {
	var b strings.Builder
	b.WriteString(head)
	for i := range n {
		fmt.Fprintf(&b, line, i)
	}
	file := filepath.Join(t.TempDir(), "evictd.yaml")
	testos.WriteFile(t, file, b.String(), 0o600)
	return []string{"--config", file}
}

// A directory of 50 drop-ins with 2,000 keys each took 10 s to read, one with as many signals of vendors two minutes: each
// file was merged into the text of all before, and each error listed all signals.
func TestTheCostOfAConfigurationIsInProportionToItsSize(t *testing.T) {
	for name, make := range large {
		allocated := func(n int) float64 {
			args := make(t, n)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = parse(t, args...) // some are refused, which must not cost more
			runtime.ReadMemStats(&after)
			return float64(after.TotalAlloc - before.TotalAlloc)
		}
		if little, much := allocated(3), allocated(15); much > 10*little {
			t.Errorf("%s: %.0f bytes allocated, and for five times as much %.1f times that, want about 5", name, little, much/little)
		}
	}
}

// The merge is that of the kubelet, which has it from a library that is too slow for many files.
func FuzzDropInsAreMergedAsByTheLibrary(f *testing.F) {
	f.Add(`{"a": {"b": 1, "c": null}, "d": [1, null]}`, `{"a": {"b": null, "e": {"f": null, "g": 1.50}}, "d": {"h": "<"}}`)
	f.Add(`{"a": 1}`, `{"a": {"b": null}}`)
	f.Add(`{"a": {"b": 1}}`, `{"a": 1e400, "c": null}`)
	f.Fuzz(func(t *testing.T, doc, patch string) {
		var was, over object
		if json.Unmarshal([]byte(doc), &was) != nil || json.Unmarshal([]byte(patch), &over) != nil || was == nil || over == nil {
			return
		}
		got := treeOf(was)
		mergePatch(got, treeOf(over))
		text, err := jsonpatch.MergePatch([]byte(doc), []byte(patch))
		if err != nil || strings.Contains(patch, "[") { // the library also takes nulls out of mappings in lists
			return
		}
		var want object
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(treeOf(want), got); diff != "" {
			t.Errorf("%s and %s (-library +ours):\n%s", doc, patch, diff)
		}
	})
}

// BenchmarkLargeConfiguration shows how many times longer ten times as much takes.
func BenchmarkLargeConfiguration(b *testing.B) {
	for name, make := range large {
		b.Run(name, func(b *testing.B) {
			little, much := make(b, 5), make(b, 50)
			var took [2]time.Duration
			for b.Loop() {
				for i, args := range [][]string{little, much} {
					began := time.Now()
					c, err := parse(b, args...)
					if err == nil {
						c.Warnings()
					}
					took[i] += time.Since(began)
				}
			}
			b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
		})
	}
}
