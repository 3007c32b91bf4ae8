package pressure

import (
	"os"
	"testing"
	"time"

	"github.com/evictd/evictd/plugins/memory"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// BenchmarkObserve compares a look of the pressure plugin with one of the memory plugin at the same machine, by turns.
func BenchmarkObserve(b *testing.B) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		b.Skip("needs root: run make bench")
	}
	var took [2]time.Duration
	signals := []eviction.Signal{eviction.MemoryAvailable, Headroom}
	plugins := []sdk.Plugin{memory.New(), New()}
	for _, p := range plugins {
		if err := p.Configurer.Configure(b.Context(), eviction.ConfigureRequest{Node: eviction.NodeFacts{RootDir: "/", CgroupRoot: "/"}}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		for i, p := range plugins {
			began := time.Now()
			if reply, err := p.Observer.Observe(b.Context(), eviction.ObserveRequest{Signals: signals[i : i+1]}); err != nil || len(reply.Observations) != 1 {
				b.Fatal(reply, err)
			}
			took[i] += time.Since(began)
		}
	}
	b.ReportMetric(float64(took[1].Nanoseconds())/float64(b.N), "ns/look")
	b.ReportMetric(float64(took[1])/float64(took[0]), "ratio-to-memory")
}
