package pods

import (
	"slices"
	"sync/atomic"
)

// own are the labels and annotations that evictd reads itself, of pods and in the runtime.
var own = []string{
	"kubernetes.io/config.source", "kubernetes.io/config.mirror", "evictd.io/evicted", "evictd.io/record",
	"io.kubernetes.pod.uid", "io.kubernetes.pod.namespace", "io.kubernetes.pod.name",
}

// Wanted holds the keys of labels and annotations to keep: the author of a pod decides how large
// the others are. A nil Wanted holds only evictd's own.
type Wanted struct {
	// Ask returns the keys that plugins want now.
	Ask   func() []string
	asked atomic.Pointer[[]string]
}

// Grown asks plugins again and reports whether a key is new. Keys are never dropped: the plugin may
// come back.
func (w *Wanted) Grown() bool {
	if w == nil {
		return false
	}
	var former []string
	if asked := w.asked.Load(); asked != nil {
		former = *asked
	}
	keys := slices.Compact(slices.Sorted(slices.Values(slices.Concat(former, w.Ask()))))
	w.asked.Store(&keys)
	return len(keys) > len(former)
}

// Kept returns the wanted ones of a pod's labels or annotations.
func (w *Wanted) Kept(all map[string]string) (out map[string]string) {
	for _, key := range w.keys() {
		if value, ok := all[key]; ok {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// Keeps reports whether a key is kept, and whether it is one that evictd reads itself.
func (w *Wanted) Keeps(key string) (kept, isOwn bool) {
	return slices.Contains(w.keys(), key), slices.Contains(own, key)
}

// keys returns the keys to keep.
func (w *Wanted) keys() []string {
	if w != nil && w.asked.Load() != nil {
		return slices.Concat(own, *w.asked.Load())
	}
	return own
}
