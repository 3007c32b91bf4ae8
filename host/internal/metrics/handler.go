package metrics

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// maxScrapes bounds what a crowd of scrapers can cost the host.
const maxScrapes = 4

func handler(from prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(kubeletFirst(from), promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// kubeletFirst puts the metrics that people know from the kubelet at the top,
// where whoever looks by eye finds them.
func kubeletFirst(from prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := from.Gather()
		slices.SortStableFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(place(a), place(b)) })
		return families, err
	})
}

func place(f *dto.MetricFamily) int {
	switch {
	case strings.HasPrefix(f.GetName(), "kubelet_"):
		return 0
	case strings.HasPrefix(f.GetName(), "evictd_"):
		return 1
	default:
		return 2
	}
}
