package kubernetes

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/ground/input"
)

// Pods are saved at most each saveEvery, and when evictd ends.
const saveEvery = 10 * time.Second

// A Store saves the pods for the next evictd, which may start while the API server is unreachable.
type Store interface {
	SavePods(data []byte) error
	// LoadPods returns what was saved last, nil if nothing was.
	LoadPods() ([]byte, error)
}

// load uses the saved pods until the API server has listed the present ones.
func (k *known) load(store Store) error {
	data, err := store.LoadPods()
	if err != nil || data == nil {
		return err
	}
	var list v1.PodList
	if _, err := input.Decode(data, &list); err != nil { // of a newer evictd it may have unknown fields
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range list.Items {
		k.pods[key(&list.Items[i])] = k.enter(&list.Items[i])
	}
	k.freshness.loaded = len(list.Items) > 0
	return nil
}

func (s *Source) save(ctx context.Context, log *slog.Logger) {
	for failed := false; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-s.known.changed:
			select {
			case <-ctx.Done():
			case <-time.After(saveEvery):
			}
		}
		data, err := marshal(s.known.all())
		if err == nil {
			err = s.store.SavePods(data)
		}
		if err != nil && !failed {
			log.Error("pods are not saved, an evictd that starts while the API server is away would know none", "error", err)
		}
		failed = err != nil
	}
}

// marshal returns pods as JSON, without the headers of their hooks.
func marshal(all []*v1.Pod) ([]byte, error) {
	list := v1.PodList{Items: make([]v1.Pod, 0, len(all))}
	for _, p := range all {
		p := p.DeepCopy()
		for i := range p.Spec.Containers {
			if l := p.Spec.Containers[i].Lifecycle; l != nil && l.PreStop != nil && l.PreStop.HTTPGet != nil {
				l.PreStop.HTTPGet.HTTPHeaders = nil
			}
		}
		list.Items = append(list.Items, *p)
	}
	return json.Marshal(list)
}
