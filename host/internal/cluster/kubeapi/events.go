package kubeapi

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Events returns a client for core events that client-go's recorder can write to
// (record.EventSink). Its methods have no context: their calls end with ctx.
func (c *Client) Events(ctx context.Context) *Events { return &Events{client: c, ctx: ctx} }

// Events sends core events to the API server.
type Events struct {
	client *Client
	ctx    context.Context //nolint:containedctx // record.EventSink gives none
}

// Create sends a new event.
func (e *Events) Create(event *v1.Event) (*v1.Event, error) {
	return e.send(e.client.current().core.Post().Namespace(event.Namespace).Resource("events").Body(event))
}

// Patch updates the count of an event that was sent before.
func (e *Events) Patch(event *v1.Event, data []byte) (*v1.Event, error) {
	return e.send(e.client.current().core.Patch(types.StrategicMergePatchType).Namespace(event.Namespace).Resource("events").Name(event.Name).Body(data))
}

// Update replaces an event that was sent before. The recorder patches instead.
func (e *Events) Update(event *v1.Event) (*v1.Event, error) {
	return e.send(e.client.current().core.Put().Namespace(event.Namespace).Resource("events").Name(event.Name).Body(event))
}

func (e *Events) send(request *rest.Request) (*v1.Event, error) {
	ctx, cancel := context.WithTimeout(e.ctx, writeTimeout)
	defer cancel()
	answered := &v1.Event{}
	err := request.MaxRetries(0).Do(ctx).Into(answered)
	return answered, err
}
