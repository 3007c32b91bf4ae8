package reason

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// An Advice says what would have spared the victim of a decision. All that tell of a decision tell
// the same: annotation, text, JSON and page.
type Advice struct {
	// Request is the least request of Resource that would have spared it, in bytes rounded up to
	// 1 Mi; 0 if none would, or if its use was growing. NextVictim names the pod that would have been
	// evicted.
	Request    int64  `json:"request,omitempty"`
	Resource   string `json:"resource,omitempty"`
	NextVictim string `json:"instead,omitempty"`
	// GrowingPerSecond is by how many bytes a second its use grew in the last two minutes or less, 0 if it
	// did not.
	GrowingPerSecond int64 `json:"growingPerSecond,omitempty"`
	// Text is the advice in words, which name no other pod. YAML goes into a pod's manifest.
	Text string `json:"text,omitempty"`
	YAML string `json:"yaml,omitempty"`
}

const (
	mebibyte = 1 << 20
	// mostRequest bounds the search, in Mi: no node has as much.
	mostRequest = 1 << 30
	// A use that grew by one part in growingPart since a sample at most grewWithin old is growing, and
	// still growing if the sample is at most stillWithin old.
	growingPart = 20
	grewWithin  = 130 * time.Second
	stillWithin = 15 * time.Second
)

// Advise returns the advice on the victim of a decision: of the first pod in the kubelet's order for
// a signal in bytes. It is empty if no request would have spared it. It is fast enough for use before
// the kill: it compares the victim with the pod behind it alone, as the others stay behind that.
func Advise(d *decision.Decision) (a Advice) {
	acted := d.Acted()
	if acted == nil || len(d.Order) < 2 || d.Ranker != nil && d.Ranker.Custom {
		return Advice{}
	}
	victim, next := d.Candidates[d.Order[0]], &d.Candidates[d.Order[1]]
	b, builtin := eviction.Builtin(acted.Signal)
	if !builtin || b.Unit != eviction.UnitBytes || victim.State != "" || victim.AtMost > 0 {
		return Advice{}
	}
	if rate, ago := growing(d, &victim); rate > 0 {
		text := fmt.Sprintf("it was still growing by %s/s", resource.NewQuantity(rate, resource.BinarySI))
		if ago > stillWithin {
			text = fmt.Sprintf("it grew by %s/s in the last %v", resource.NewQuantity(rate, resource.BinarySI), ago.Round(time.Second))
		}
		return Advice{GrowingPerSecond: rate, Text: text + ": find what grows, or give the pod a limit"}
	}
	spared := func(request int64) bool { // in bytes
		victim.MemoryRequest, victim.StorageRequest = request, request
		two := []eviction.Candidate{victim.Ranked(acted.Signal), next.Ranked(acted.Signal)}
		if d.Order[0] > d.Order[1] { // pods of equal rank stay in the order of their source
			slices.Reverse(two)
		}
		return rank.Kubelet(two, acted.Signal)[0].UID != victim.UID
	}
	is := victim.Ranked(acted.Signal)
	if was := rank.Request(&is, acted.Signal); !spared(mostRequest*mebibyte) || spared(was) {
		return Advice{}
	}
	least := sort.Search(mostRequest, func(mi int) bool { return spared(int64(mi) * mebibyte) })
	a = Advice{Request: int64(least) * mebibyte, Resource: "memory", NextVictim: next.Pod}
	if b.Condition == eviction.DiskPressure {
		a.Resource = "ephemeral-storage"
	}
	amount := resource.NewQuantity(a.Request, resource.BinarySI)
	a.Text = fmt.Sprintf("a request of %s would have spared it", amount)
	a.YAML = fmt.Sprintf("resources: {requests: {%s: %s}}", a.Resource, amount)
	return a
}

// growing returns by how many bytes a second the use of a decision's victim grew in a time before the
// node was observed, in two digits; 0 if it did not, or if that is unknown.
func growing(d *decision.Decision, victim *decision.Candidate) (rate int64, in time.Duration) {
	if len(d.Curves) == 0 || d.Curves[0] != victim.Pod {
		return 0, 0
	}
	for _, s := range slices.Backward(d.Usage) {
		ago := (d.Timeline.ObservedMS - s.MS) / 1000
		if ago < 1 || len(s.Used) == 0 {
			continue
		}
		by := victim.Usage - s.Used[0]
		if s.Used[0] < 0 || ago > grewWithin.Seconds() || by < max(mebibyte, victim.Usage/growingPart) {
			return 0, 0
		}
		return twoDigits(float64(by) / ago), time.Duration(ago * float64(time.Second))
	}
	return 0, 0
}

// twoDigits rounds a number of bytes to two digits of Ki or Mi.
func twoDigits(n float64) int64 {
	unit := 1024.0
	if n >= 10*mebibyte {
		unit = mebibyte
	}
	digits := math.Pow(10, math.Max(0, math.Floor(math.Log10(n/unit))-1))
	return int64(math.Round(n/unit/digits) * digits * unit)
}
