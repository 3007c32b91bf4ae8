package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Kubelet is a client of the kubelet's HTTP server. The API server's node proxy cannot be used,
// since it refuses loopback addresses, unlike exec and logs.
type Kubelet struct {
	// URL is the kubelet's address; Access.Config has the credentials for it.
	URL    string
	client *http.Client
}

// Summary returns the working sets of the kubelet's pods, in bytes. It omits pods that the kubelet
// has not measured yet.
func (k Kubelet) Summary(ctx context.Context) (map[types.UID]uint64, error) {
	var summary struct {
		Pods []struct {
			PodRef struct{ UID types.UID }
			Memory struct{ WorkingSetBytes uint64 }
		}
	}
	page, err := k.Ask(ctx, "/stats/summary")
	if err == nil {
		err = json.Unmarshal(page, &summary)
	}
	if err != nil {
		return nil, err
	}
	measured := map[types.UID]uint64{}
	for _, pod := range summary.Pods {
		measured[pod.PodRef.UID] = pod.Memory.WorkingSetBytes
	}
	return measured, nil
}

// Pods returns the pods that the kubelet has received from the API server, and its static pods.
func (k Kubelet) Pods(ctx context.Context) ([]v1.Pod, error) {
	var pods v1.PodList
	page, err := k.Ask(ctx, "/pods")
	if err == nil {
		err = json.Unmarshal(page, &pods)
	}
	return pods.Items, err
}

// Ask returns the page that the kubelet serves at a path.
func (k Kubelet) Ask(ctx context.Context, path string) ([]byte, error) {
	page, err := get(ctx, k.client, k.URL+path)
	if err != nil {
		return nil, fmt.Errorf("%s of the kubelet: %w", path, err)
	}
	return page, nil
}

// get returns a page; anything but 200 is an error.
func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, answer.Status, bytes.TrimSpace(page))
	}
	return page, err
}

// serves returns a check that fails until the URL can be fetched.
func serves(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := get(ctx, client, url)
		return err
	}
}
