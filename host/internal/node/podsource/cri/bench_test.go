package cri

import (
	"fmt"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// BenchmarkActive measures one listing through a real socket, nothing having changed:
// it is on the way from a crossed threshold to a victim.
func BenchmarkActive(b *testing.B) {
	for _, n := range []int{110, 500} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			s, dir := fakecri.Start(b), b.TempDir()
			for i := range n {
				uid := fmt.Sprintf("uid-%d", i)
				s.Add(fakecri.Pod{UID: uid, Namespace: "default", Name: uid, Containers: []fakecri.Container{{Name: "c"}}})
				put(b, dir, uid+".yaml", podYAML(uid, uid, "spec: {containers: [{name: c, resources: {requests: {memory: 1Gi}}}]}"))
			}
			conn, err := criclient.Dial(nodefs.FS{}, s.Endpoint())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			manifests := NewManifests(dir, defaultRules)
			source := New(criclient.NewLister(runtimeapi.NewRuntimeServiceClient(conn), nil), manifests)
			for settled := false; !settled; {
				manifests.list()
				settled = true
				for _, f := range manifests.joined.files {
					settled = settled && f.settled
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if got, err := source.Active(b.Context()); err != nil || len(got.Pods) != n {
					b.Fatal(len(got.Pods), err)
				}
			}
		})
	}
}
