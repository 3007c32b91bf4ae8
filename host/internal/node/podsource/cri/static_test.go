package cri

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// Two lines in a manifest made its pod immune, and an innocent one went.
func TestTheAuthorOfAPodCannotMakeItStatic(t *testing.T) {
	const source, mirror = "kubernetes.io/config.source", "kubernetes.io/config.mirror"
	type says = map[string]string
	for name, c := range map[string]struct {
		manifest, sandbox, want says
		gone, evictable         bool
	}{
		"a plain pod":                           {manifest: says{}, evictable: true},
		"its author says that it is static":     {manifest: says{source: "file", "a": "b"}, want: says{"a": "b"}, evictable: true},
		"from nowhere":                          {manifest: says{source: ""}, evictable: true},
		"its author says that it is a mirror":   {manifest: says{mirror: "x", source: "api"}, evictable: true},
		"the kubelet says where it is from":     {manifest: says{source: "file", mirror: "x"}, sandbox: says{source: "api"}, want: says{source: "api"}, evictable: true},
		"the kubelet says that it is static":    {manifest: says{"a": "b"}, sandbox: says{source: "file"}, want: says{source: "file", "a": "b"}},
		"both say so":                           {manifest: says{source: "file"}, sandbox: says{source: "file"}, want: says{source: "file"}},
		"from a URL, whatever its author says":  {manifest: says{source: "api"}, sandbox: says{source: "http"}, want: says{source: "http"}},
		"a sandbox is no mirror":                {manifest: says{}, sandbox: says{mirror: "x", source: "api"}, want: says{source: "api"}, evictable: true},
		"other annotations are the manifest's":  {manifest: says{"a": "b"}, sandbox: says{"a": "c", "d": "e"}, want: says{"a": "b"}, evictable: true},
		"nobody knows better without a sandbox": {manifest: says{source: "file"}, gone: true, want: says{source: "file"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := fakecri.New(), t.TempDir()
			s.Add(fakecri.Pod{UID: "u", Namespace: "default", Name: "p", Annotations: c.sandbox, SandboxGone: c.gone, Containers: []fakecri.Container{{Name: "c"}}})
			content := `{"apiVersion":"v1","kind":"Pod","metadata":{"uid":"u","name":"p","annotations":{"x":"y"`
			for k, v := range c.manifest {
				content += `,"` + k + `":"` + v + `"`
			}
			put(t, dir, "p.json", content+"}}}")
			want := says{"x": "y"}
			maps.Copy(want, c.want)
			source := New(criclient.NewLister(s.Client(), nil), NewManifests(dir, defaultRules))
			for range 2 { // the manifest is as it was
				got, err := source.Active(t.Context())
				if err != nil || len(got.Pods) != 1 || !got.Pods[0].HasManifest {
					t.Fatal(got, err)
				}
				p := got.Pods[0]
				if policy.Evictable(p.API) != c.evictable {
					t.Errorf("evictable is %v, want %v", !c.evictable, c.evictable)
				}
				if diff := cmp.Diff(want, p.API.Annotations); diff != "" {
					t.Errorf("annotations (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(want, p.Row.Annotations); diff != "" {
					t.Errorf("annotations for plugins (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A pod that was made again under its uid is what its newest sandbox says.
func TestTheNewestSandboxSaysWhereAPodIsFrom(t *testing.T) {
	s, dir := fakecri.New(), t.TempDir()
	put(t, dir, "p.yaml", podYAML("u", "p"))
	s.Add(fakecri.Pod{UID: "u", Namespace: "default", Name: "p", NotReady: true, Annotations: map[string]string{"kubernetes.io/config.source": "api"}})
	s.Add(fakecri.Pod{UID: "u", Namespace: "default", Name: "p", Annotations: map[string]string{"kubernetes.io/config.source": "file"}})
	if got := active(t, s, dir); len(got.Pods) != 1 || policy.Evictable(got.Pods[0].API) {
		t.Errorf("%+v, want one pod, static", got.Pods)
	}
}
