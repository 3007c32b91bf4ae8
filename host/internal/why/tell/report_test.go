package tell

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
)

// A month of a dry run says who was killed, and how much earlier evictd would have been than the kubelet.
func TestTheReportSumsUp(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	head := func(seconds int, h decision.Head) decision.Head {
		h.Time = at.Add(time.Duration(seconds) * time.Second)
		return h
	}
	kill := func(pod, owner, scope string) decision.Head {
		return decision.Head{Kind: decision.KindKernel, By: "the kernel", Pod: pod, UID: pod, Owner: owner, Scope: scope, Signal: "memory.available", Message: "killed: " + scope}
	}
	heads := []decision.Head{
		head(0, kill("shop/web-1", "ReplicaSet/web", decision.ScopeContainer)),
		head(1, decision.Head{Kind: decision.KindEviction, Pod: "shop/report", UID: "r", Signal: "memory.available", DryRun: true}),
		head(2, decision.Head{Kind: decision.KindEviction, Pod: "shop/report", UID: "r", Signal: "memory.available", DryRun: true}),
		head(9, decision.Head{Kind: decision.KindOther, By: "the kubelet", Pod: "shop/report", UID: "r", Message: "The node was low on resource: memory. "}),
		head(10, decision.Head{Kind: decision.KindOther, By: "the eviction API", Pod: "shop/report", UID: "r"}),
		head(20, kill("shop/web-2", "ReplicaSet/web", decision.ScopeContainer)),
		head(30, decision.Head{Kind: decision.KindKernel, By: "the kernel", Scope: decision.ScopeUnknown, Reason: "outside of pods"}),
		head(40, decision.Head{Kind: decision.KindNone, Reason: "no pod"}),
		head(50, decision.Head{Kind: decision.KindLimit, Pod: "shop/db", UID: "d", Signal: "emptydirfs.limit"}),
	}
	r := NewReport(heads)
	want := `KERNEL KILLS  OF                   TIMES  LAST                     WHY
container     ReplicaSet/shop/web  2      2026-01-01 12:00:20 UTC  killed: container
unknown       not known            1      2026-01-01 12:00:30 UTC  outside of pods

EVICTIONS            BY EVICTD  IN A DRY RUN  BY OTHERS  PODS
by the eviction API  0          0             1          1
by the kubelet       0          0             1          1
emptydirfs.limit     1          0             0          1
memory.available     0          2             0          1

BY THE KUBELET  EVICTD'S SIGNAL   WHEN                     SECONDS LATER  MESSAGE
shop/report     memory.available  2026-01-01 12:00:09 UTC  8.0            The node was low on resource: memory.
`
	if got := string(r.Text()); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"secondsLater":8`) || !strings.Contains(string(text), `"of":"ReplicaSet/shop/web"`) {
		t.Errorf("%s, %v", text, err)
	}
	empty := NewReport(nil)
	if got := string(empty.Text()); strings.Count(got, "no ") != 3 {
		t.Errorf("of nothing: %s", got)
	}
}
