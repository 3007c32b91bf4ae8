package inspect

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/cluster/rights"
	victimkubernetes "github.com/evictd/evictd/host/internal/cluster/victim/kubernetes"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/parts"
)

// apiTimeout bounds all requests to the API server together.
const apiTimeout = 15 * time.Second

// tryAPI lists the pods of this node, and checks with a dry run whether one of them could be
// evicted.
func tryAPI(ctx context.Context, n *node, f *Findings) {
	c := n.c
	if c.Mode != config.ModeKubernetes {
		return
	}
	api, err := parts.API(c, n.Version, slog.New(slog.DiscardHandler))
	if err != nil {
		f.add(Error, "kubeconfig: %q: %v", c.Kubeconfig, err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	list, err := api.ListPods(ctx, metav1.ListOptions{})
	if err != nil {
		f.addAll(Error, wantReachable(c.Kubeconfig, fmt.Errorf("list the pods of node %q: %w", c.NodeName, err)))
		return
	}
	known, _ := list.(*v1.PodList)
	all := make([]*v1.Pod, 0, len(known.Items))
	for i := range known.Items {
		all = append(all, &known.Items[i])
	}
	refused, warnings := rights.Check(ctx, rights.Options{
		API: api, Node: c.NodeName, Pods: all, Patch: victimkubernetes.Patch,
		Conditions: c.NodeConditions != config.NodeConditionsNone, Taints: c.NodeConditions == config.NodeConditionsTaints, Reviews: !c.Loopback(),
	})
	f.addAll(Error, refused...)
	for _, w := range warnings {
		f.add(Warning, "%s", w)
	}
}

// wantReachable adds advice to the error of an API server that is not reachable from a pod.
func wantReachable(kubeconfig string, err error) error {
	if kubeconfig != "" || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return err
	}
	return fmt.Errorf("%w; want an API server that nodes reach: apiServer.host and apiServer.port of the chart", err)
}
