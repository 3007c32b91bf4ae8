package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

type server struct {
	pluginv1.UnimplementedPluginServiceServer

	plugin eviction.Plugin

	mu sync.Mutex
	// endWatch ends the current Watch, nil if there has been none.
	endWatch context.CancelCauseFunc
}

func (s *server) Describe(ctx context.Context, w *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	p := s.plugin
	if p.SignalsFor != nil && !slices.Contains(w.GetFeatures(), eviction.FeatureSignalsFromConfig) {
		return nil, refusal(ctx, fmt.Errorf("the host lacks %s, from which the signals of this plugin follow: want a newer evictd", eviction.FeatureSignalsFromConfig))
	}
	if p.SignalsFor != nil && w.Config != nil { //nolint:protogetter // absent is not empty
		var err error
		if p.Signals, err = p.SignalsFor(w.GetConfig()); err != nil {
			return nil, refusal(ctx, err)
		}
	}
	for i := range p.Signals { // an older host would evict pods that the plugin does not name
		if d := p.Signals[i].Definition; d != nil && d.Candidates == eviction.RankedPods && !slices.Contains(w.GetFeatures(), eviction.FeatureCandidateScope) {
			return nil, refusal(ctx, fmt.Errorf("signal %s: the host lacks %s, so that it would evict pods that this plugin does not name: want a newer evictd", p.Signals[i].Signal, eviction.FeatureCandidateScope))
		}
	}
	if s.plugin.CheckHost != nil {
		if err := s.plugin.CheckHost(decodeHost(w)); err != nil {
			return nil, refusal(ctx, err)
		}
	}
	return encodePlugin(&p), nil
}

func (s *server) Configure(ctx context.Context, w *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	if s.plugin.Configurer == nil {
		return s.UnimplementedPluginServiceServer.Configure(ctx, w)
	}
	err := s.plugin.Configurer.Configure(ctx, decodeConfigureRequest(w))
	if wrong := problems(err); len(wrong) > 0 && w.GetReadsProblems() && ctx.Err() == nil {
		return &pluginv1.ConfigureResponse{Problems: wrong}, nil
	}
	if err != nil {
		return nil, refusal(ctx, err)
	}
	return &pluginv1.ConfigureResponse{}, nil
}

func (s *server) Observe(ctx context.Context, w *pluginv1.ObserveRequest) (*pluginv1.ObserveResponse, error) {
	if s.plugin.Observer == nil {
		return s.UnimplementedPluginServiceServer.Observe(ctx, w)
	}
	reply, err := s.plugin.Observer.Observe(ctx, decodeObserveRequest(w))
	if err != nil {
		return nil, refusal(ctx, err)
	}
	if !s.plugin.OwnsLayout {
		// An Observer taken from a built-in plugin still reports it.
		reply.Layout = nil
	}
	return encodeObserveReply(reply), nil
}

func (s *server) measure(w *measureRequest, stream grpc.ServerStream) error {
	if s.plugin.Measurer == nil {
		return s.UnimplementedPluginServiceServer.Measure(nil, nil)
	}
	ctx := stream.Context()
	out := newBatch(ctx, func(c measurementChunk) error { return stream.SendMsg(c) })
	defer out.close() //nolint:errcheck // for a panic: what was measured before is sent
	err := s.plugin.Measurer.Measure(ctx, w.MeasureRequest, out.add)
	if lost := out.close(); lost != nil && ctx.Err() == nil {
		return lost // A chunk over the limit is an invalid reply, not a refusal.
	}
	return refusal(ctx, err)
}

var errWatchReplaced = errors.New("replaced by a newer watch")

func (s *server) Watch(w *pluginv1.WatchRequest, stream grpc.ServerStreamingServer[pluginv1.WatchResponse]) error {
	if s.plugin.Watcher == nil {
		return s.UnimplementedPluginServiceServer.Watch(w, stream)
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	s.replaceWatch(cancel)

	out := sender[pluginv1.WatchResponse]{send: stream.Send}
	defer out.close()
	err := s.plugin.Watcher.Watch(ctx, decodeWatchRequest(w), func(wake eviction.Wake) {
		if ctx.Err() == nil {
			out.put(encodeWake(wake))
		}
	})
	if errors.Is(context.Cause(ctx), errWatchReplaced) {
		return status.Error(codes.Aborted, errWatchReplaced.Error())
	}
	return refusal(ctx, err)
}

// replaceWatch ends the current Watch without waiting for it: one that does not return must
// not block the new one.
func (s *server) replaceWatch(end context.CancelCauseFunc) {
	s.mu.Lock()
	former := s.endWatch
	s.endWatch = end
	s.mu.Unlock()
	if former != nil {
		former(errWatchReplaced)
	}
}

func (s *server) rank(ctx context.Context, w *rankRequest) (*rankResponse, error) {
	if s.plugin.Ranker == nil {
		_, err := s.UnimplementedPluginServiceServer.Rank(ctx, nil)
		return nil, err
	}
	ranked, err := s.plugin.Ranker.Rank(ctx, w.RankRequest)
	if err != nil {
		return nil, refusal(ctx, err)
	}
	return &rankResponse{ranking: ranked}, nil
}

func (s *server) Reclaim(w *pluginv1.ReclaimRequest, stream grpc.ServerStreamingServer[pluginv1.ReclaimResponse]) error {
	if s.plugin.Reclaimer == nil {
		return s.UnimplementedPluginServiceServer.Reclaim(w, stream)
	}
	ctx := stream.Context()
	out := sender[pluginv1.ReclaimResponse]{send: stream.Send}
	defer out.close()
	result, err := s.plugin.Reclaimer.Reclaim(ctx, decodeReclaimRequest(w), func(r eviction.Reclaimed) {
		out.put(encodeReclaimed(r))
	})
	out.put(encodeReclaimed(result))
	return refusal(ctx, err)
}
