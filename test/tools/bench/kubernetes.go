package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

const (
	// clusterNode is the node whose pods evictd requests.
	clusterNode = "bench-node"
	clusterPods = 110
)

// The budgets of mode kubernetes. They are printed, not enforced.
const (
	budgetHostMiB           = 60
	budgetRequestsPerMinute = 1
)

// modes compares the cost of an idle evictd that gets its pods from an API server with that of one
// that gets as many pods from files.
func modes(ctx context.Context, b *bench) (*part, error) {
	cri, err := idleIn(ctx, b, nil)
	if err != nil {
		return nil, err
	}
	api := newAPIServer(clusterPods)
	defer api.Close()
	defer api.CloseClientConnections()
	kubernetes, err := idleIn(ctx, b, api)
	if err != nil {
		return nil, err
	}
	requests, renewal, err := api.asked()
	if err != nil {
		return nil, err
	}
	p := &part{
		Title: fmt.Sprintf("Idle for %v: the pods from an API server, beside as many from files", b.idle),
		Columns: []column{
			{"pss_mib", "PSS MiB", 1},
			{"wakeups_per_s", "wake-ups/s", 2},
			{"cpu_percent", "CPU %", 3},
			{"threads", "threads", 0},
			{"requests_per_min", "requests/min", 2},
			{"ratio", "PSS ratio", 2},
		},
		Notes: []string{
			fmt.Sprintf("The API server is a fake whose %d pods (%d KiB each) never change. Requests: %d until evictd counted as idle, %d since;", clusterPods, api.pods[0].Size()>>10, requests-kubernetes.requests, kubernetes.requests),
			fmt.Sprintf("that the watch is to be renewed after %v is in the requests a minute. The budget is for evictd alone.", renewal),
		},
	}
	files := cri.rows(" with files", clusterPods)
	for i, r := range kubernetes.rows(" with an API server", clusterPods) {
		if r.Name == "evictd with an API server" {
			r.Values["requests_per_min"] = float64(kubernetes.requests)/kubernetes.took.Minutes() + 1/renewal.Minutes()
		}
		r.Peer, r.Values["ratio"] = files[i].Name, r.Values["pss_mib"]/files[i].Values["pss_mib"]
		p.Rows = append(p.Rows, files[i], r)
	}
	p.Rows = append(p.Rows, row{Name: "budget", Pods: clusterPods, Values: map[string]float64{"pss_mib": budgetHostMiB, "requests_per_min": budgetRequestsPerMinute}})
	return p, nil
}

// idleIn measures an idle evictd with the pods of an API server, or of files if api is nil.
func idleIn(ctx context.Context, b *bench, api *apiServer) (w watchedTime, err error) {
	s, err := newSite(b, clusterPods, b.memTotal)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if api == nil {
		return s.watch(ctx, nil, idleSettle, b.idle)
	}
	kubeconfig := filepath.Join(s.dir, "kubeconfig")
	if err := api.kubeconfig(kubeconfig); err != nil {
		return w, err
	}
	s.api = api
	return s.watch(ctx, map[string]any{"mode": "kubernetes", "kubeconfig": kubeconfig, "nodeName": clusterNode, "podManifestDir": nil}, idleSettle, b.idle)
}
