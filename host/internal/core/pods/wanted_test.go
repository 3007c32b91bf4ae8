package pods_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/host/internal/node/podsource/running"
)

// Who reads another key has it kept.
func TestWhatEvictdReadsItselfIsKept(t *testing.T) {
	for _, key := range []string{
		running.AnnotationSource, running.AnnotationMirror, v1.MirrorPodAnnotationKey, victim.AnnotationEvicted, victim.AnnotationRecord,
		criclient.LabelNamespace, criclient.LabelName,
	} {
		for name, w := range map[string]*pods.Wanted{"nothing": nil, "another key": {Ask: func() []string { return []string{"a"} }}} {
			w.Grown()
			if got := w.Kept(map[string]string{key: "v", "large": "x"}); len(got) != 1 || got[key] != "v" {
				t.Errorf("plugins want %s: of %s is kept %v", name, key, got)
			}
		}
	}
}
