package gc

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// removeSandboxes removes sandboxes that are not ready and have no containers: all of a pod if
// runtimeMayGo allows it, else all but the pod's newest sandbox (kuberuntime_gc.go:evictSandboxes).
func (g *containerGC) removeSandboxes(ctx context.Context, l listing) {
	occupied := map[string]bool{}
	for _, c := range l.containers {
		occupied[c.GetPodSandboxId()] = true
	}
	byPod := map[string][]*runtimeapi.PodSandbox{}
	for _, sb := range l.sandboxes {
		if uid := sb.GetMetadata().GetUid(); uid != "" {
			byPod[uid] = append(byPod[uid], sb)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(byPod)) {
		of := byPod[uid]
		slices.SortFunc(of, func(a, b *runtimeapi.PodSandbox) int { // oldest first
			return cmp.Or(cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()), cmp.Compare(a.GetId(), b.GetId()))
		})
		if !g.pods.runtimeMayGo(uid) {
			of = of[:len(of)-1]
		}
		for _, sb := range of {
			if g.over(ctx) {
				return
			}
			if occupied[sb.GetId()] || sb.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
				continue
			}
			if err := g.removeSandbox(ctx, sb.GetId()); err != nil {
				g.fail(fmt.Errorf("remove sandbox %s of pod %s/%s: %w", sb.GetId(), sb.GetMetadata().GetNamespace(), sb.GetMetadata().GetName(), err))
			}
		}
	}
}

// removeSandbox stops the sandbox first, like the kubelet, in case its network still exists.
func (g *containerGC) removeSandbox(ctx context.Context, id string) error {
	err := remove(ctx, g.step, g.client.Runtime.StopPodSandbox, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	if err != nil && !gone(err) {
		return fmt.Errorf("stop it: %w", err)
	}
	err = remove(ctx, g.step, g.client.Runtime.RemovePodSandbox, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	if err != nil && !gone(err) {
		return err
	}
	g.sandboxes++
	g.free(0, 0)
	return nil
}
