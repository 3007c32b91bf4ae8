package disk_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/summary/summarytest"
	"github.com/evictd/evictd/shared/eviction"
)

var all = []eviction.Signal{
	eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.ImageFsAvailable,
	eviction.ImageFsInodesFree, eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree,
}

const node = `{"node":{
	"fs":{"availableBytes":1,"capacityBytes":10,"inodesFree":2,"inodes":20},
	"runtime":{"imageFs":{"availableBytes":3,"capacityBytes":30}}},
	"pods":[
	{"podRef":{"uid":"layer"},"containers":[{"name":"c","rootfs":{"usedBytes":900},"logs":{"usedBytes":1}}]},
	{"podRef":{"uid":"cache"},"containers":[{"name":"c","rootfs":{"usedBytes":1},"logs":{"usedBytes":1}}],"volume":[{"name":"v","usedBytes":500}]},
	{"podRef":{"uid":"logs"},"containers":[{"name":"c","rootfs":{"usedBytes":50},"logs":{"usedBytes":100}}]}]}`

// serving returns the plugin with a host that always gives the same answer.
func serving(t *testing.T, a summarytest.Answer) sdk.Plugin {
	t.Helper()
	p := disk.New()
	configure(t, p, summarytest.Serve(t, func(uint64, eviction.View) summarytest.Answer { return a }))
	return p
}

func configure(t *testing.T, p sdk.Plugin, socket string) {
	t.Helper()
	if err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: eviction.NodeFacts{SummarySocket: socket}}); err != nil {
		t.Fatal(err)
	}
}

func observe(t *testing.T, p sdk.Plugin) (eviction.ObserveReply, error) {
	t.Helper()
	return p.Observer.Observe(t.Context(), eviction.ObserveRequest{
		PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Signals: all,
	})
}

func TestPluginKeepsTheContract(t *testing.T) {
	p := disk.New()
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	if !p.OwnsLayout {
		t.Error("the layout has no owner")
	}
	for _, s := range all {
		if got, want := p.For(s), eviction.CanObserve|eviction.CanMeasure|eviction.CanRank|eviction.CanReclaim; got != want {
			t.Errorf("%s: capabilities %b, want %b", s, got, want)
		}
	}
	err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Config: []byte(`{"sourc":"summary"}`)})
	if err == nil || !strings.Contains(err.Error(), "sourc") {
		t.Errorf("error is %v, want one with the unknown field", err)
	}
}

func TestObserveReportsFiguresAndLayout(t *testing.T) {
	got, err := observe(t, serving(t, summarytest.Answer{Summary: node, Layout: "imagefs", ContainerFsErr: "no label"}))
	figures := func(s eviction.Signal, available, capacity int64) eviction.Observation {
		return eviction.Observation{Signal: s, State: eviction.Observed, Available: available, Capacity: capacity}
	}
	want := eviction.ObserveReply{
		Observations: []eviction.Observation{
			figures(eviction.NodeFsAvailable, 1, 10), figures(eviction.NodeFsInodesFree, 2, 20), figures(eviction.ImageFsAvailable, 3, 30),
			{Signal: eviction.ImageFsInodesFree, State: eviction.Absent},
			{Signal: eviction.ContainerFsAvailable, State: eviction.Absent},
			{Signal: eviction.ContainerFsInodesFree, State: eviction.Absent},
		},
		Layout: &eviction.LayoutReport{ImageFs: true, ContainerFsErr: "no label"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, reply (-want +got):\n%s", err, diff)
	}
}

// A pass begins with the layout: it is reported even if there is no summary.
func TestASummaryErrorIsUnknownButTheLayoutIsReported(t *testing.T) {
	got, err := observe(t, serving(t, summarytest.Answer{Err: "kubelet is down", ImageFsErr: "no device"}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&eviction.LayoutReport{ImageFsErr: "no device"}, got.Layout); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
	if len(got.Observations) != len(all) {
		t.Errorf("%d observations, want %d", len(got.Observations), len(all))
	}
	for _, o := range got.Observations {
		if o.State != eviction.Unknown || !strings.Contains(o.Err, "kubelet is down") {
			t.Errorf("got %+v, want unknown with the host's error", o)
		}
	}
}

func TestRankingByLayout(t *testing.T) {
	pods := []eviction.Pod{
		{UID: "layer"},
		{UID: "cache", Volumes: []eviction.Volume{{Name: "v", CountsForRanking: true}}},
		{UID: "logs"},
	}
	for _, c := range []struct {
		layout string
		signal eviction.Signal
		want   string
	}{
		{"shared", eviction.NodeFsAvailable, "layer cache logs"},
		{"shared", eviction.ImageFsAvailable, "layer cache logs"},
		{"imagefs", eviction.NodeFsAvailable, "cache logs layer"},
		{"imagefs", eviction.ImageFsAvailable, "layer logs cache"},
		{"imagefs", eviction.ContainerFsAvailable, "layer logs cache"},
		{"containerfs", eviction.NodeFsAvailable, "layer cache logs"},
		{"containerfs", eviction.ImageFsAvailable, "layer cache logs"}, // all use 0: the order of the source
		{"containerfs", eviction.NodeFsInodesFree, "layer cache logs"},
	} {
		p := serving(t, summarytest.Answer{Summary: node, Layout: c.layout})
		var candidates []eviction.Candidate
		req := eviction.MeasureRequest{PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Detail: eviction.DetailPod, Signals: []eviction.Signal{c.signal}, Pods: pods}
		if err := p.Measurer.Measure(t.Context(), req, func(m eviction.Measurement) {
			candidates = append(candidates, eviction.Candidate{Pod: pods[len(candidates)], Measurement: m})
		}); err != nil {
			t.Fatal(err)
		}
		ranked, err := p.Ranker.Rank(t.Context(), eviction.RankRequest{Signal: c.signal, Candidates: candidates})
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, r := range ranked {
			order = append(order, r.UID)
		}
		if got := strings.Join(order, " "); got != c.want {
			t.Errorf("%s, %s: order %q, want %q", c.layout, c.signal, got, c.want)
		}
	}
}

func TestReclaimStepsByLayout(t *testing.T) {
	const both = disk.ContainerGC + " " + disk.ImageGC
	for layout, want := range map[eviction.Layout][3]string{ // nodefs, imagefs, containerfs
		eviction.LayoutShared:      {both, both, both},
		eviction.LayoutImageFs:     {"", both, both},
		eviction.LayoutContainerFs: {disk.ContainerGC, disk.ImageGC, disk.ContainerGC},
	} {
		for i, spec := range disk.New().Signals {
			var steps []string
			for _, s := range spec.ReclaimSteps {
				if slices.Contains(s.Layouts, layout) {
					steps = append(steps, s.Name)
				}
			}
			if got := strings.Join(steps, " "); got != want[i/2] {
				t.Errorf("layout %d, %s: steps %q, want %q", layout, spec.Signal, got, want[i/2])
			}
		}
	}
}

func TestWhatItCannotDoItRefuses(t *testing.T) {
	p := disk.New()
	if _, err := observe(t, p); err == nil || !strings.Contains(err.Error(), "not configured") {
		t.Errorf("error is %v, want not configured", err)
	}
	if err := p.Measurer.Measure(t.Context(), eviction.MeasureRequest{}, nil); err == nil || !strings.Contains(err.Error(), "not configured") {
		t.Errorf("error is %v, want not configured", err)
	}
	reclaim := eviction.ReclaimRequest{Signal: eviction.NodeFsAvailable, Step: disk.ImageGC}
	if _, err := p.Reclaimer.Reclaim(t.Context(), reclaim, nil); err == nil || !strings.Contains(err.Error(), "not configured") {
		t.Errorf("reclaim: error is %v, want not configured", err)
	}
	p = serving(t, summarytest.Answer{Summary: node, Layout: "shared"})
	if _, err := p.Reclaimer.Reclaim(t.Context(), reclaim, nil); err == nil || !strings.Contains(err.Error(), "reclaim image-gc: nothing can be freed") {
		t.Errorf("reclaim: error is %v, want a refusal", err)
	}
	reclaim.Step = "defrag"
	if _, err := p.Reclaimer.Reclaim(t.Context(), reclaim, nil); err == nil || !strings.Contains(err.Error(), "no such step") {
		t.Errorf("reclaim: error is %v, want no such step", err)
	}
}

func TestAllThatIsWrongWithAConfigurationIsSaidAtOnce(t *testing.T) {
	for config, want := range map[string][]string{
		`{"sourc":"summary","walk":{"deep":1}}`:                                                   {`unknown field "sourc"`, `unknown field "walk.deep"`},
		`{"imageMinimumGCAge":"-1s","minAge":"-2s","walk":{"parallel":-1,"entriesPerMeasure":5}}`: {"config: imageMinimumGCAge is -1s", "config: minAge is -2s", "config: walk.parallel is -1", "config: walk.entriesPerMeasure is 5"},
		`{"sourc":"summary","imageMinimumGCAge":"-1s"}`:                                           {`unknown field "sourc"`, "config: imageMinimumGCAge is -1s"},
		`{"imageMinimumGCAge":"soon"}`:                                                            {`duration "soon"`},
	} {
		// It is said with a summary, too: the source is easily changed.
		for _, facts := range []eviction.NodeFacts{{SummarySocket: "/s"}, {RuntimeEndpoint: "unix:///cri"}} {
			err := disk.New().Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: facts, Config: []byte(config)})
			for _, part := range want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%s: error is %v, want %q in it", config, err, part)
				}
			}
		}
	}
	err := disk.New().Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: eviction.NodeFacts{RuntimeEndpoint: "tcp://1.2.3.4"}})
	if err == nil || !strings.Contains(err.Error(), "runtime endpoint") {
		t.Errorf("error is %v, want the endpoint", err)
	}
}
