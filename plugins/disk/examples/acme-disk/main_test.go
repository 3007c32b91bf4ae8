package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/harness/stack"
)

func TestMain(m *testing.M) {
	if os.Getenv("EVICTD_TEST_ROOT") != "" {
		if err := stack.PrivateMounts(); err != nil { // a test that dies leaves no mount behind
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func TestTheCacheGoesBeforeAllElse(t *testing.T) {
	p := plugin()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Signals {
		var steps []string
		for _, step := range s.ReclaimSteps {
			steps = append(steps, step.Name)
		}
		want := disk.ContainerGC + " " + disk.ImageGC
		if s.Signal == eviction.NodeFsAvailable || s.Signal == eviction.NodeFsInodesFree {
			want = dropCache + " " + disk.ContainerGC + " " + disk.ImageGC
		}
		if got := strings.Join(steps, " "); got != want {
			t.Errorf("%s: steps %q, want %q", s.Signal, got, want)
		}
	}
}

func TestMistakesInTheConfigurationAreNamed(t *testing.T) {
	for config, want := range map[string][]string{
		`{"mountPoint":"scratch","cacheDir":"../pods","freePercent":100}`: {`mountPoint: "scratch"`, `cacheDir: "../pods"`, "freePercent: 100"},
		`{"cacheDir":"."}`:      {`cacheDir: ".", want a directory below mountPoint`},
		`{"cacheDir":"/cache"}`: {`cacheDir: "/cache"`},
		`{"freePercent":-1}`:    {"freePercent: -1"},
		`{"mountpoint":"/s"}`:   {`unknown field "mountpoint"`},
		// All at once, whoever says it.
		`{"mountpoint":"/s","cacheDir":"/cache"}`: {`unknown field "mountpoint"`, `cacheDir: "/cache"`},
		`{"minAge":"1m"}`:                         {`unknown field "minAge"`}, // it is the disk plugin's
		`{"disk":{"minage":""}}`:                  {`unknown field "minage"`},
	} {
		p := plugin()
		err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{
			Node: eviction.NodeFacts{RuntimeEndpoint: "unix:///nowhere.sock"}, Config: []byte(config),
		})
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v, want %q in it", config, err, part)
			}
		}
		if _, err := p.Observer.Observe(t.Context(), eviction.ObserveRequest{Signals: []eviction.Signal{eviction.NodeFsAvailable}}); err == nil {
			t.Errorf("%s: half of it is in force", config)
		}
	}
}
