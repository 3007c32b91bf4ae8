package policy

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/shared/eviction"
)

func TestGraceOverride(t *testing.T) {
	for name, c := range map[string]struct {
		grace time.Duration
		max   int32
		pod   *int64
		want  int64
	}{
		"hard is a second":                    {0, 60, new(int64(30)), 1},
		"soft is capped by the configuration": {time.Minute, 10, new(int64(30)), 10},
		"soft never lengthens":                {time.Minute, 60, new(int64(30)), 30},
		"soft without a period of the pod":    {time.Minute, 60, nil, 60},
		"nothing configured":                  {time.Minute, 0, new(int64(30)), 0},
		"negative is the pod's own":           {time.Minute, -1, new(int64(300)), 300},
		"negative and the pod has none":       {time.Minute, -1, nil, 30},
		"negative and hard":                   {0, -1, new(int64(300)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := GraceOverride(gib(eviction.MemoryAvailable, 1, c.grace), c.max, c.pod); got != c.want {
				t.Errorf("grace is %d s, want %d", got, c.want)
			}
		})
	}
}

func TestIsCritical(t *testing.T) {
	pod := func(priority int32, annotations ...string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: v1.PodSpec{Priority: &priority}}
		for i := 0; i < len(annotations); i += 2 {
			p.Annotations[annotations[i]] = annotations[i+1]
		}
		return p
	}
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"a plain pod":             {&v1.Pod{}, false},
		"just below the priority": {pod(1_999_999_999), false},
		"system-critical":         {pod(2_000_000_000), true},
		"static, from a file":     {pod(0, "kubernetes.io/config.source", "file"), true},
		"static, from nowhere":    {pod(0, "kubernetes.io/config.source", ""), true},
		"from the API":            {pod(0, "kubernetes.io/config.source", "api"), false},
		"a mirror":                {pod(0, "kubernetes.io/config.source", "api", "kubernetes.io/config.mirror", ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsCritical(c.pod); got != c.want {
				t.Errorf("critical is %v, want %v", got, c.want)
			}
			if got := Evictable(c.pod); got == c.want {
				t.Errorf("evictable is %v, want %v", got, !c.want)
			}
		})
	}
	if Evictable(nil) {
		t.Error("a pod that nobody knows may be evicted")
	}
}
