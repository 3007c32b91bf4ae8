package e2e_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/harness/stack"
)

// The logs of one pod fill the disk: rotated ones go, and the pod stays and writes on. Without
// the setting it is the pod that goes.
func TestRotatedLogsGoBeforeTheirPod(t *testing.T) {
	for _, e := range engines(t) {
		t.Run(e.name, func(t *testing.T) {
			n := newSite(t, shared(e))
			writer := run(t, n.Stack, sketch{name: "writer"})
			dir := filepath.Join(writer.LogDir(), "main")
			current := filepath.Join(dir, "0.log")
			// start starts evictd with three rotated logs, below a threshold by more than one of them.
			start := func(logGC bool) (rotated []string) {
				var sizes []int64
				for _, stamp := range []string{"20260101-000000", "20260101-000010", "20260101-000020"} {
					sizes = append(sizes, writeLog(t, writer, current))
					rotated = append(rotated, current+"."+stamp)
					rotate(t, n.Stack, writer, current, rotated[len(rotated)-1])
				}
				left := freeOn(t, filepath.Join(n.Dir, "node"), bytesOf)
				settings := diskSettings(n.Stack)
				settings["config"].(map[string]any)["logGC"] = logGC
				n.start(t, map[string]any{
					"plugins":      map[string]any{"disk": settings},
					"evictionHard": map[string]string{"nodefs.available": strconv.FormatInt(left+sizes[0]+sizes[1]/2, 10)},
				})
				return rotated
			}

			rotated := start(true)
			n.log.chapter(t, "below the threshold with rotated logs to remove:")
			n.log.await(t, "reclaim was enough, no pod has to go")
			n.log.awaitCalm(t)
			n.log.wantEvicted(t)
			for i, file := range rotated {
				if _, err := os.Stat(file); (err == nil) != (i == 2) {
					t.Errorf("rotated log %d: %v, want only the newest left", i, err)
				}
			}
			for _, r := range n.log.records(stepEnded) {
				if r.String("step") == "image-gc" {
					t.Error("image-gc ran although rotated logs were enough")
				}
			}
			writeLog(t, writer, current)
			wantRunning(t, writer)
			n.stop(t)

			start(false)
			n.log.chapter(t, "the same with logGC off:")
			n.log.await(t, "evicting pod")
			n.log.await(t, "pod finished")
			n.log.wantEvicted(t, writer.Key())
			for _, r := range n.log.records(stepEnded) {
				if r.String("step") == "log-gc" {
					t.Error("log-gc ran although it is off")
				}
			}
		})
	}
}

// writeLog has the container write 20 MiB, and returns the size of the log after that.
func writeLog(t *testing.T, p *stack.Pod, file string) (size int64) {
	t.Helper()
	const bytes = 20 * mib
	must(t, p.Exec(t.Context(), "main", linesToLog(bytes)))
	eventually(t, "the runtime has written the log", func() (bool, error) {
		info, err := os.Stat(file)
		if err == nil {
			size = info.Size()
		}
		return size >= bytes, err
	})
	return size
}

// rotate does what a kubelet does to a log.
func rotate(t *testing.T, n *stack.Stack, p *stack.Pod, from, to string) {
	t.Helper()
	must(t, os.Rename(from, to))
	list, err := n.Runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(p.UID)}}})
	must(t, err)
	_, err = n.Runtime.ReopenContainerLog(t.Context(), &runtimeapi.ReopenContainerLogRequest{ContainerId: list.GetContainers()[0].GetId()})
	must(t, err)
}
