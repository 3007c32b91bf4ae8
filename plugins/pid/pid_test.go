package pid_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/summary/summarytest"
	"github.com/evictd/evictd/shared/eviction"
)

const node = `{"node":{"rlimit":{"time":"2026-03-01T12:00:09Z","maxpid":32768,"curproc":32000}},"pods":[
	{"podRef":{"uid":"few"},"process_stats":{"process_count":3}},
	{"podRef":{"uid":"many"},"process_stats":{"process_count":300}}]}`

var asked = []eviction.Signal{eviction.PIDAvailable}

func configure(t *testing.T, p sdk.Plugin, socket string) {
	t.Helper()
	if err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: eviction.NodeFacts{SummarySocket: socket}}); err != nil {
		t.Fatal(err)
	}
}

func observe(t *testing.T, p sdk.Plugin, pass uint64) (eviction.ObserveReply, error) {
	t.Helper()
	return p.Observer.Observe(t.Context(), eviction.ObserveRequest{PassView: eviction.PassView{Pass: pass, View: eviction.ViewBefore}, Signals: asked})
}

func TestPluginKeepsTheContract(t *testing.T) {
	p := pid.New()
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	if got, want := p.For(eviction.PIDAvailable), eviction.CanObserve|eviction.CanMeasure|eviction.CanRank; got != want {
		t.Errorf("capabilities %b, want %b", got, want)
	}
	err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Config: []byte(`{"nested":true}`)})
	if err == nil || !strings.Contains(err.Error(), "nested") {
		t.Errorf("error is %v, want one with the unknown field", err)
	}
}

// From a summary to the order of eviction, as the host goes.
func TestObserveMeasureRank(t *testing.T) {
	p := pid.New()
	configure(t, p, summarytest.Serve(t, func(uint64, eviction.View) summarytest.Answer { return summarytest.Answer{Summary: node} }))
	reply, err := observe(t, p, 1)
	want := eviction.ObserveReply{Observations: []eviction.Observation{{
		Signal: eviction.PIDAvailable, State: eviction.Observed, Available: 768, Capacity: 32768,
		Time: time.Date(2026, 3, 1, 12, 0, 9, 0, time.UTC), Components: []eviction.Component{{Name: "running", Value: 32000}},
	}}}
	if diff := cmp.Diff(want, reply); diff != "" || err != nil {
		t.Fatalf("error %v, reply (-want +got):\n%s", err, diff)
	}
	pods := []eviction.Pod{{UID: "few"}, {UID: "important", Priority: 7}, {UID: "many"}, {UID: "gone"}}
	var candidates []eviction.Candidate
	req := eviction.MeasureRequest{PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Detail: eviction.DetailPod, Signals: asked, Pods: pods}
	if err := p.Measurer.Measure(t.Context(), req, func(m eviction.Measurement) {
		candidates = append(candidates, eviction.Candidate{Pod: pods[len(candidates)], Measurement: m})
	}); err != nil {
		t.Fatal(err)
	}
	ranked, err := p.Ranker.Rank(t.Context(), eviction.RankRequest{Signal: eviction.PIDAvailable, Candidates: candidates})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, r := range ranked {
		order = append(order, r.UID)
	}
	if diff := cmp.Diff([]string{"gone", "many", "few", "important"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestBeforeItIsConfigured(t *testing.T) {
	p := pid.New()
	if _, err := observe(t, p, 1); err == nil || !strings.Contains(err.Error(), "not configured") {
		t.Errorf("error is %v, want not configured", err)
	}
	err := p.Measurer.Measure(t.Context(), eviction.MeasureRequest{Signals: asked}, func(eviction.Measurement) { t.Error("measured") })
	if err == nil || !strings.Contains(err.Error(), "not configured") {
		t.Errorf("error is %v, want not configured", err)
	}
}

func TestASummaryErrorIsUnknown(t *testing.T) {
	p := pid.New()
	configure(t, p, summarytest.Serve(t, func(uint64, eviction.View) summarytest.Answer { return summarytest.Answer{Err: "kubelet is down"} }))
	if _, err := observe(t, p, 1); err == nil || !strings.Contains(err.Error(), "kubelet is down") {
		t.Errorf("error is %v, want the host's", err)
	}
}
