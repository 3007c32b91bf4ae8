package disk_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

var all = []eviction.Signal{
	eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.ImageFsAvailable,
	eviction.ImageFsInodesFree, eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree,
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
		if got, want := p.For(s), eviction.CanObserve|eviction.CanMeasure|eviction.CanWatch|eviction.CanRank|eviction.CanReclaim; got != want {
			t.Errorf("%s: capabilities %b, want %b", s, got, want)
		}
	}
	err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Config: []byte(`{"sourc":"native"}`)})
	if err == nil || !strings.Contains(err.Error(), "sourc") {
		t.Errorf("error is %v, want one with the unknown field", err)
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
				if len(s.Layouts) == 0 || slices.Contains(s.Layouts, layout) {
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
	newMachine(t).configure(t, p, "")
	reclaim.Step = "defrag"
	if _, err := p.Reclaimer.Reclaim(t.Context(), reclaim, nil); err == nil || !strings.Contains(err.Error(), "no such step") {
		t.Errorf("reclaim: error is %v, want no such step", err)
	}
}

func TestAllThatIsWrongWithAConfigurationIsSaidAtOnce(t *testing.T) {
	for config, want := range map[string][]string{
		`{"sourc":"native","walk":{"deep":1}}`:                                                    {`unknown field "sourc"`, `unknown field "walk.deep"`},
		`{"imageMinimumGCAge":"-1s","minAge":"-2s","walk":{"parallel":-1,"entriesPerMeasure":5}}`: {"config: imageMinimumGCAge is -1s", "config: minAge is -2s", "config: walk.parallel is -1", "config: walk.entriesPerMeasure is 5"},
		`{"sourc":"native","imageMinimumGCAge":"-1s"}`:                                            {`unknown field "sourc"`, "config: imageMinimumGCAge is -1s"},
		`{"imageMinimumGCAge":"soon"}`:                                                            {`duration "soon"`},
	} {
		err := disk.New().Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: eviction.NodeFacts{RuntimeEndpoint: "unix:///cri"}, Config: []byte(config)})
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error is %v, want %q in it", config, err, part)
			}
		}
	}
	err := disk.New().Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: eviction.NodeFacts{RuntimeEndpoint: "tcp://1.2.3.4"}})
	if err == nil || !strings.Contains(err.Error(), "runtime endpoint") {
		t.Errorf("error is %v, want the endpoint", err)
	}
}
