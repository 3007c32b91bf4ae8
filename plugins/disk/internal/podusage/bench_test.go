package podusage

import (
	"fmt"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// Pods with a container and ten files in an emptyDir each, all of them measured:
// what a ranking costs.
func BenchmarkMeasure(b *testing.B) {
	for _, count := range []int{10, 500} {
		b.Run(fmt.Sprintf("pods=%d", count), func(b *testing.B) {
			n := &node{t: b, root: b.TempDir(), runtime: fakecri.New(), layout: eviction.LayoutShared}
			n.start(Walk{})
			var rows []eviction.Pod
			for i := range count {
				uid := fmt.Sprint("u", i)
				rows = append(rows, n.add(uid, []eviction.Volume{emptyDir("v")}, fakecri.Container{Name: "c", LayerBytes: 10}))
				n.fill("/kubelet/pods/"+uid+"/volumes/kubernetes.io~empty-dir/v", 10)
			}
			b.ReportAllocs()
			for b.Loop() {
				got, err := n.measure(b.Context(), request(eviction.DetailPod, eviction.NodeFsAvailable, rows...))
				if err != nil || len(got) != count {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
