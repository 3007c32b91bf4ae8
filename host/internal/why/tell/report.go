package tell

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/record/format"
)

// A Report sums the records of a node up.
type Report struct {
	// Kills are the kernel's by where memory had run out and whose pod it was, the most first.
	Kills []KernelKills `json:"kernelKills"`
	// Evictions are by signal, the most first.
	Evictions []EvictionCount `json:"evictions"`
	// Beside are the kubelet's evictions of pods that evictd would have evicted in a dry run.
	Beside []BesideKubelet `json:"besideKubelet"`
}

// KernelKills are those of one owner's pods, or of a pod without one.
type KernelKills struct {
	Scope string    `json:"scope"`
	Of    string    `json:"of"`
	Times int       `json:"times"`
	Last  time.Time `json:"last"`
	Why   string    `json:"why"`
}

// EvictionCount counts evictions for a signal, in a dry run and not, and those of others for no known one.
type EvictionCount struct {
	Signal string `json:"signal"`
	Times  int    `json:"times"`
	Dry    int    `json:"dryRun"`
	// Others counts those by the kubelet and other programs.
	Others int `json:"byOthers"`
	Pods   int `json:"pods"`
}

// BesideKubelet is an eviction by the kubelet, with the seconds from when evictd would have evicted that pod.
type BesideKubelet struct {
	Pod     string    `json:"pod"`
	Signal  string    `json:"signal"`
	Kubelet time.Time `json:"kubelet"`
	Seconds float64   `json:"secondsLater"`
	Message string    `json:"message"`
}

// NewReport returns the report of decisions, the oldest first.
func NewReport(heads []decision.Head) Report {
	kills, counts := map[[2]string]*KernelKills{}, map[string]*EvictionCount{}
	seen, would := map[[2]string]bool{}, map[string]*decision.Head{}
	r := Report{Kills: []KernelKills{}, Evictions: []EvictionCount{}, Beside: []BesideKubelet{}}
	for i := range heads {
		switch h := &heads[i]; {
		case h.Kind == decision.KindKernel:
			key := [2]string{h.Scope, cmp.Or(h.OwnerName(), h.Pod, "not known")}
			k := entry(kills, key, KernelKills{Scope: key[0], Of: key[1]})
			k.Times, k.Last, k.Why = k.Times+1, h.Time, cmp.Or(strings.TrimSpace(h.Message), h.Reason)
		case h.UID != "":
			signal := cmp.Or(h.Signal, "by "+h.By)
			e := entry(counts, signal, EvictionCount{Signal: signal})
			e.count(h)
			if key := [2]string{signal, h.UID}; !seen[key] {
				seen[key] = true
				e.Pods++
			}
			switch before := would[h.UID]; {
			case before == nil && h.DryRun:
				would[h.UID] = h
			case before != nil && h.By == "the kubelet":
				r.Beside = append(r.Beside, BesideKubelet{h.Pod, before.Signal, h.Time, h.Time.Sub(before.Time).Seconds(), strings.TrimSpace(h.Message)})
			}
		}
	}
	for _, k := range kills {
		r.Kills = append(r.Kills, *k)
	}
	slices.SortFunc(r.Kills, func(a, b KernelKills) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Of, b.Of))
	})
	for _, e := range counts {
		r.Evictions = append(r.Evictions, *e)
	}
	slices.SortFunc(r.Evictions, func(a, b EvictionCount) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Signal, b.Signal))
	})
	return r
}

// entry returns the value of a key, which is first at the first time.
func entry[K comparable, V any](of map[K]*V, key K, first V) *V {
	if of[key] == nil {
		of[key] = &first
	}
	return of[key]
}

func (e *EvictionCount) count(h *decision.Head) {
	switch {
	case h.By != "":
		e.Others++
	case h.DryRun:
		e.Dry++
	default:
		e.Times++
	}
}

// Text returns r as tables.
func (r *Report) Text() []byte {
	kills, evictions, beside := [][]string{}, [][]string{}, [][]string{}
	for _, k := range r.Kills {
		kills = append(kills, []string{k.Scope, k.Of, strconv.Itoa(k.Times), format.Stamp(k.Last), k.Why})
	}
	for _, e := range r.Evictions {
		evictions = append(evictions, []string{e.Signal, strconv.Itoa(e.Times), strconv.Itoa(e.Dry), strconv.Itoa(e.Others), strconv.Itoa(e.Pods)})
	}
	for _, b := range r.Beside {
		beside = append(beside, []string{b.Pod, b.Signal, format.Stamp(b.Kubelet), strconv.FormatFloat(b.Seconds, 'f', 1, 64), b.Message})
	}
	var text []byte
	for _, t := range []struct {
		none    string
		heading []string
		rows    [][]string
	}{
		{"the kernel has killed no process of a pod", []string{"KERNEL KILLS", "OF", "TIMES", "LAST", "WHY"}, kills},
		{"no pod was evicted", []string{"EVICTIONS", "BY EVICTD", "IN A DRY RUN", "BY OTHERS", "PODS"}, evictions},
		{"the kubelet has evicted no pod after evictd would have", []string{"BY THE KUBELET", "EVICTD'S SIGNAL", "WHEN", "SECONDS LATER", "MESSAGE"}, beside},
	} {
		if len(text) > 0 {
			text = append(text, '\n')
		}
		if len(t.rows) == 0 {
			text = append(text, t.none+"\n"...)
			continue
		}
		text = append(text, Table(slices.Concat([][]string{t.heading}, t.rows))...)
	}
	return text
}
