package tell

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
)

func TestAStormIsOfPodsThatWent(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	page := func(change func(i int, h *decision.Head)) string {
		heads := make([]decision.Head, 4)
		for i := range heads {
			heads[i] = decision.Head{Time: at.Add(time.Duration(i) * time.Minute), Episode: "e1", Pod: "shop/report", UID: fmt.Sprint(i), Owner: "Job/report"}
			change(i, &heads[i])
		}
		return string(render("storms", storms(heads)))
	}
	for name, c := range map[string]struct {
		change func(i int, h *decision.Head)
		pods   int
	}{
		"pods of a controller":            {func(int, *decision.Head) {}, 4},
		"one pod that cannot be killed":   {func(_ int, h *decision.Head) { h.UID = "1" }, 0},
		"a dry run":                       {func(_ int, h *decision.Head) { h.DryRun = true }, 0},
		"decisions not to evict":          {func(_ int, h *decision.Head) { h.UID = "" }, 0},
		"pods without a controller":       {func(_ int, h *decision.Head) { h.Owner = "" }, 0},
		"an owner without a kind":         {func(_ int, h *decision.Head) { h.Owner = "report" }, 0},
		"owners of the same name":         {func(i int, h *decision.Head) { h.Pod = fmt.Sprintf("%d/report", i%2) }, 0},
		"episodes of which one has three": {func(i int, h *decision.Head) { h.Episode = fmt.Sprint("e", i/3) }, 3},
	} {
		got := page(c.change)
		if strings.Contains(got, "Made again and again") != (c.pods > 0) || c.pods > 0 && !strings.Contains(got, fmt.Sprintf(`<td class="amount">%d</td>`, c.pods)) {
			t.Errorf("%s: want %d pods in %s", name, c.pods, got)
		}
	}
}
