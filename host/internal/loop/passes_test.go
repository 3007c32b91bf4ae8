package loop

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/rundir"
)

// The status counted what went on beside the loop as passes and the metric did not; a
// pass that somebody asked for was one of the "other" kind.
func TestStatusAndMetricCountTheSamePasses(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.takes = 200 * time.Millisecond
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(20 * time.Second)
		if _, err := n.loop.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.after(time.Second)
		passes := n.loop.Snapshot().Passes
		scraped := httptest.NewRecorder()
		n.loop.Metrics.Handler().ServeHTTP(scraped, httptest.NewRequest("GET", "/metrics", nil))
		for _, want := range []string{
			fmt.Sprintf("evictd_passes_total %d\n", passes), `evictd_pass_duration_seconds_count{trigger="request"} 1`,
		} {
			if !strings.Contains(scraped.Body.String(), want) {
				t.Errorf("the metrics do not have %q; the status counts %d passes", want, passes)
			}
		}
	})
}
