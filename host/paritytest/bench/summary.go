package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/host/paritytest/embedded"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// summaries tells what it costs that figures come from a summary.
func (b *bench) summaries(ctx context.Context) error {
	fmt.Println("Measure from a summary, in a plugin: decoding it, then answering for all pods; its peer is encoding/json into the kubelet's types; medians in ms")
	fmt.Printf("%-8s %6s %10s %10s %10s %12s\n", "", "pods", "KiB", "decode", "answer", "encoding/json")
	for _, f := range families {
		for _, n := range sizes {
			s, err := scenario(f, n)
			if err != nil {
				return err
			}
			data := []byte(s.Steps[0].Summary)
			req := eviction.MeasureRequest{Detail: eviction.DetailPod, Signals: []eviction.Signal{eviction.Signal(f.signal)}}
			for _, p := range s.Pods {
				req.Pods = append(req.Pods, eviction.Pod{UID: string(p.UID), Volumes: []eviction.Volume{{Name: "scratch", CountsForRanking: true}}})
			}
			var decoded *summary.Summary
			decode, err := b.median(func() (err error) {
				decoded, err = summary.Decode(data)
				return err
			})
			if err != nil {
				return err
			}
			answered := 0
			answer, err := b.median(func() error {
				decoded.Measure(req, eviction.LayoutShared, func(eviction.Measurement) { answered++ })
				return nil
			})
			if err != nil {
				return err
			}
			peer, err := b.median(func() error { return json.Unmarshal(data, new(statsapi.Summary)) })
			if err != nil {
				return err
			}
			fmt.Printf("%-8s %6d %10d %10s %10s %12s\n", f.name, n, len(data)>>10, ms(decode), ms(answer), ms(peer))
		}
	}
	return b.whole(ctx)
}

// whole times passes of the built plugins, which get a new summary in each: all
// three read and decode it.
func (b *bench) whole(ctx context.Context) error {
	fmt.Println("A whole pass of the built plugins with a new summary in each; medians in ms")
	fmt.Printf("%-8s %6s %10s\n", "", "pods", "evictd")
	for _, f := range families {
		for _, n := range sizes {
			s, err := scenario(f, n)
			if err != nil {
				return err
			}
			evictd, err := embedded.NewTimer(ctx, s, b.plugins, false)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			took, err := b.median(func() error {
				_, evicted, err := evictd.Pass(ctx)
				if err == nil && evicted != 1 {
					err = fmt.Errorf("%d pods went in a pass, want 1", evicted)
				}
				return err
			})
			if err := errors.Join(err, evictd.Stop()); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			fmt.Printf("%-8s %6d %10s\n", f.name, n, ms(took))
		}
	}
	return nil
}

// median times do for the budget.
func (b *bench) median(do func() error) (time.Duration, error) {
	const warm, least = 2, 5
	var all []time.Duration
	end := time.Now().Add(b.budget)
	for i := 0; i < warm+least || time.Now().Before(end); i++ {
		began := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		if i >= warm {
			all = append(all, time.Since(began))
		}
	}
	return median(all), nil
}
