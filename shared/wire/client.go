package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// options are those of every call. The limits override go-plugin's, which are 2 GiB.
var options = []grpc.CallOption{
	grpc.MaxCallRecvMsgSize(MaxMessageBytes),
	grpc.MaxCallSendMsgSize(MaxMessageBytes),
	grpc.ForceCodecV2(newCodec()),
}

// Client is the host's side of a connection to a plugin.
type Client struct {
	cc  grpc.ClientConnInterface // for calls with messages that read and write themselves
	rpc pluginv1.PluginServiceClient
}

// NewClient returns a client that uses cc. The caller closes cc.
func NewClient(cc grpc.ClientConnInterface) *Client {
	return &Client{cc: cc, rpc: pluginv1.NewPluginServiceClient(cc)}
}

// Describe asks the plugin for its description. The fields of the returned plugin
// are calls to it; a capability that it does not offer is nil. Like Describe, they
// take their deadline from the context and return errors that wrap one of those of
// package eviction, or the context's error if the context ended.
//
// The caller may pass pod rows with all labels and annotations: only those that the
// plugin wants are sent.
func (c *Client) Describe(ctx context.Context, host eviction.Host) (eviction.Plugin, error) {
	w := new(pluginv1.DescribeResponse)
	if err := c.cc.Invoke(ctx, pluginv1.PluginService_Describe_FullMethodName, encodeHost(host), bounded{w, describeBounds}, options...); err != nil {
		return eviction.Plugin{}, CallError(ctx, err)
	}
	return c.connect(w)
}

// connect returns the plugin that w describes, with calls in its fields.
func (c *Client) connect(w *pluginv1.DescribeResponse) (eviction.Plugin, error) {
	p := decodePlugin(w)
	r := &remote{c, podEncoder{labels: p.WantLabels, annotations: p.WantAnnotations}}
	if w.GetConfigurable() {
		p.Configurer = r
	}
	if w.GetHasMetrics() {
		p.Meter = r
	}
	offered := decodeCapabilities(w.GetCapabilities())
	if offered.Has(eviction.CanObserve) {
		p.Observer = r
	}
	if offered.Has(eviction.CanMeasure) {
		p.Measurer = r
	}
	if offered.Has(eviction.CanWatch) {
		p.Watcher = r
	}
	if offered.Has(eviction.CanRank) {
		p.Ranker = r
	}
	if offered.Has(eviction.CanReclaim) {
		p.Reclaimer = r
	}
	if err := p.Validate(); err != nil {
		return eviction.Plugin{}, fmt.Errorf("%w: describe: %w", eviction.ErrInvalidReply, err)
	}
	return p, nil
}

// remote implements every capability by calls to the plugin.
type remote struct {
	*Client

	pods podEncoder
}

func (r *remote) Configure(ctx context.Context, req eviction.ConfigureRequest) error {
	w := new(pluginv1.ConfigureResponse)
	if err := r.cc.Invoke(ctx, pluginv1.PluginService_Configure_FullMethodName, encodeConfigureRequest(req), bounded{w, configureBounds}, options...); err != nil {
		return CallError(ctx, err)
	}
	return decodeProblems(w)
}

func (r *remote) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	w := new(pluginv1.ObserveResponse)
	if err := r.cc.Invoke(ctx, pluginv1.PluginService_Observe_FullMethodName, encodeObserveRequest(req), bounded{w, observeBounds}, options...); err != nil {
		return eviction.ObserveReply{}, CallError(ctx, err)
	}
	return decodeObserveReply(w), nil
}

// Measure calls emit on the caller's goroutine as answers arrive. Answers for pods that were not
// requested, and repeated ones, are dropped and reported in the error; the others count. After too
// many dropped answers it stops reading from the plugin.
func (r *remote) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	ctx, hangUp := context.WithCancel(ctx) // on return, should the plugin still send
	defer hangUp()
	pods, done := index{pods: req.Pods}, make([]bool, len(req.Pods))
	var (
		dropped int
		example string
	)
	stream, err := r.openMeasure(ctx, &measureRequest{MeasureRequest: req, pods: r.pods})
	for err == nil && dropped <= len(req.Pods)+chunk {
		var in measurements
		if err = stream.RecvMsg(&in); err != nil {
			break
		}
		for _, m := range in.list {
			at, asked := pods.find(m.UID)
			if !asked || done[at] {
				dropped++
				example = m.UID
				continue
			}
			done[at] = true
			emit(m)
		}
	}
	err = streamError(ctx, err)
	if dropped > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d measurements of pods not asked for or answered before, such as %.64q",
			eviction.ErrInvalidReply, dropped, example))
	}
	return err
}

// openMeasure does what the generated code would do for a measureRequest.
func (r *remote) openMeasure(ctx context.Context, req *measureRequest) (grpc.ClientStream, error) {
	desc := &grpc.StreamDesc{StreamName: "Measure", ServerStreams: true}
	stream, err := r.cc.NewStream(ctx, desc, pluginv1.PluginService_Measure_FullMethodName, options...)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(req); err != nil {
		return nil, err
	}
	return stream, stream.CloseSend()
}

func (r *remote) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	stream, err := r.rpc.Watch(ctx, encodeWatchRequest(req), append(slices.Clip(options), grpc.MaxCallRecvMsgSize(MaxWakeBytes))...)
	return receive(ctx, stream, err, func(w *pluginv1.WatchResponse) { wake(decodeWake(w)) })
}

func (r *remote) Rank(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	reply := rankResponse{atMost: len(req.Candidates)}
	if err := r.cc.Invoke(ctx, pluginv1.PluginService_Rank_FullMethodName, &rankRequest{req, r.pods}, &reply, options...); err != nil {
		return nil, CallError(ctx, err)
	}
	return reply.ranking, nil
}

// Reclaim calls progress for every message, including the result. If it fails, it also
// returns what was reclaimed until then.
func (r *remote) Reclaim(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	var last eviction.Reclaimed
	stream, err := r.rpc.Reclaim(ctx, encodeReclaimRequest(req), options...)
	err = receive(ctx, stream, err, func(w *pluginv1.ReclaimResponse) {
		last = decodeReclaimed(w)
		progress(last)
	})
	return last, err
}

// receive passes each message of a stream to take until the stream ends. err is the error
// of opening the stream.
func receive[W any](ctx context.Context, stream grpc.ServerStreamingClient[W], err error, take func(*W)) error {
	for err == nil {
		var w *W
		if w, err = stream.Recv(); err == nil {
			take(w)
		}
	}
	return streamError(ctx, err)
}

// streamError is like CallError, but returns nil for the regular end of a stream.
func streamError(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return CallError(ctx, err)
}
