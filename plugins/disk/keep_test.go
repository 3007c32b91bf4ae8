package disk_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/shared/eviction"
)

// A collector with another rule than the plugin's would remove what the operator keeps.
func TestTheRuleForOtherCollectorsIsThePlugins(t *testing.T) {
	images := []*runtimeapi.Image{
		{Id: "sha256:hand", RepoTags: []string{"example.org/hand:1"}},
		{Id: "sha256:ours", RepoTags: []string{"registry.local/ours:1"}, RepoDigests: []string{"registry.local/ours@sha256:1"}},
		{Id: "sha256:free", RepoTags: []string{"example.org/free:1"}, RepoDigests: []string{"example.org/free@sha256:1"}},
	}
	m := newMachine(t)
	m.runtime.SetSandboxImage("example.org/pause:1")
	p := disk.New() // each configuration is a reload
	for _, c := range []struct {
		config string
		want   []string
	}{
		{`{"imageMinimumGCAge":"0s","keepImages":["*"]}`, []string{"sha256:hand", "sha256:ours", "sha256:free"}},
		{`{"imageMinimumGCAge":"0s","keepImages":["registry.local/*"],"importedImages":true}`, []string{"sha256:hand", "sha256:ours"}},
		{`{"imageMinimumGCAge":"0s","importedImages":true}`, []string{"sha256:hand"}},
		{`{"imageMinimumGCAge":"0s","keepImages":[],"importedImages":false}`, nil},
		{`{"imageMinimumGCAge":"0s"}`, nil},
	} {
		for _, image := range images {
			m.runtime.AddImage(image)
		}
		m.configure(t, p, c.config)
		if _, err := p.Reclaimer.Reclaim(t.Context(), eviction.ReclaimRequest{Signal: eviction.NodeFsAvailable, Step: disk.ImageGC}, nil); err != nil {
			t.Fatal(err)
		}
		left := m.runtime.ImageIDs()
		rule, err := disk.KeptImages(json.RawMessage(c.config))
		if err != nil {
			t.Fatal(err)
		}
		if (rule == nil) != (c.want == nil) {
			t.Errorf("%s: there is a rule: %v", c.config, rule != nil)
		}
		for _, image := range images {
			want := slices.Contains(c.want, image.GetId())
			if rule != nil && rule(image.GetRepoTags(), image.GetRepoDigests(), image.GetId()) != want {
				t.Errorf("%s: the rule on %s is not %v", c.config, image.GetId(), want)
			}
			if slices.Contains(left, image.GetId()) != want {
				t.Errorf("%s: image GC left %q, want %q", c.config, left, c.want)
			}
		}
	}
}

func TestTheRuleForOtherCollectorsWantsAValidConfiguration(t *testing.T) {
	const config = `{"keepImages":["","a b"],"minAge":"-1s","walk":{"parallel":99},"colour":"green"}`
	rule, err := disk.KeptImages(json.RawMessage(config))
	if err == nil || rule != nil {
		t.Fatalf("error %v, a rule: %v", err, rule != nil)
	}
	configured := disk.New().Configurer.Configure(t.Context(), eviction.ConfigureRequest{Config: []byte(config)})
	if configured == nil || configured.Error() != err.Error() {
		t.Errorf("error\n%v\nbut of the plugin\n%v", err, configured)
	}
	for _, part := range []string{`config: keepImages[0] is ""`, `config: keepImages[1] is "a b"`, "config: minAge", "config: walk.parallel", "colour"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error\n%v\nwithout %q", err, part)
		}
	}
	for _, config := range []string{"", "{}", `{"colour":"green"}`} { // a vendor's plugin may have this name
		if rule, err := disk.KeptImages(json.RawMessage(config)); rule != nil || err != nil {
			t.Errorf("configuration %q: %v, a rule: %v", config, err, rule != nil)
		}
	}
}
