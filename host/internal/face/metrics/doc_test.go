package metrics

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/evictd/evictd/shared/testos"
)

const document = "../../../../docs/operations.md"

var (
	// row is a line of the table of metrics: name, type, labels.
	row = regexp.MustCompile("(?m)^\\| `((?:evictd|kubelet)_[a-z_]+)` \\| (?:counter|gauge|histogram) \\| ([^|]*) \\|")
	// described matches a Desc's text, with its name and labels.
	described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
)

func TestEveryMetricIsDocumented(t *testing.T) {
	text := testos.ReadFile(t, document)
	documented := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		labels := strings.NewReplacer("`", "", " ", "", "none", "").Replace(m[2])
		documented[m[1]] = labels
	}
	m := New("v1", "abc")
	registered := map[string]string{}
	descs := make(chan *prometheus.Desc, 1000)
	m.registry.Describe(descs)
	close(descs)
	for d := range descs {
		found := described.FindStringSubmatch(d.String())
		if found == nil {
			t.Fatalf("cannot read %s", d)
		}
		if strings.HasPrefix(found[1], "evictd_") || strings.HasPrefix(found[1], "kubelet_") {
			registered[found[1]] = found[2]
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(registered)), slices.Sorted(maps.Keys(documented))); diff != "" {
		t.Errorf("metrics (-registered +documented):\n%s", diff)
	}
	for name, labels := range registered {
		if documented[name] != labels {
			t.Errorf("%s has the labels %q, documented are %q", name, labels, documented[name])
		}
	}
}
