package cri_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

func dial(t *testing.T, runtime, image string) *cri.Client {
	t.Helper()
	c, err := cri.Dial(nodefs.FS{}, runtime, image)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestBothServicesOnOneSocketOrTwo(t *testing.T) {
	runtime, images := fakecri.Start(t), fakecri.Start(t)
	runtime.AddImage(&runtimeapi.Image{Id: "runtime's"})
	images.AddImage(&runtimeapi.Image{Id: "images'"})
	path := strings.TrimPrefix(runtime.Endpoint(), "unix://")
	for name, c := range map[string]struct{ runtime, image, want string }{
		"no image endpoint":       {runtime.Endpoint(), "", "runtime's"},
		"the same":                {runtime.Endpoint(), runtime.Endpoint(), "runtime's"},
		"the same, once as path":  {path, runtime.Endpoint(), "runtime's"},
		"another for images":      {path, images.Endpoint(), "images'"},
		"another, both with unix": {runtime.Endpoint(), images.Endpoint(), "images'"},
	} {
		t.Run(name, func(t *testing.T) {
			client := dial(t, c.runtime, c.image)
			if _, err := client.Runtime.Version(t.Context(), &runtimeapi.VersionRequest{}); err != nil {
				t.Error(err)
			}
			got, err := client.Images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
			if err != nil || len(got.GetImages()) != 1 || got.GetImages()[0].GetId() != c.want {
				t.Errorf("images %v, error %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestEndpointsThatCanNeverWork(t *testing.T) {
	for name, c := range map[string]struct{ runtime, image, want string }{
		"none":             {"", "", `runtime endpoint: container runtime endpoint "" is not a unix socket`},
		"tcp":              {"tcp://localhost:1", "", "is not a unix socket"},
		"two slashes":      {"unix://run/containerd.sock", "", "want three slashes"},
		"images elsewhere": {"/run/a.sock", "b.sock", `image endpoint: container runtime endpoint "b.sock"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cri.Dial(nodefs.FS{}, c.runtime, c.image)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

// A runtime that is away must not cost the deadline of a call, and must be found
// again when it is back.
func TestARuntimeThatIsAwayFailsCallsAtOnceAndComesBack(t *testing.T) {
	s := fakecri.Start(t)
	client := dial(t, s.Endpoint(), "")
	call := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := client.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.Die()
		if _, err := os.Stat(strings.TrimPrefix(s.Endpoint(), "unix://")); !os.IsNotExist(err) {
			t.Fatalf("socket of a dead runtime: %v", err)
		}
		started := time.Now()
		for range 3 {
			// The first call may still hit the breaking connection.
			if err := call(); err == nil || !strings.Contains(err.Error(), "nobody listens") && !strings.Contains(err.Error(), "does not exist") && !strings.Contains(err.Error(), "Unavailable") {
				t.Errorf("error %v, want that the runtime is away", err)
			}
		}
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("three calls took %v", took)
		}
		if err := s.Revive(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * time.Second); call() != nil; {
			if time.Now().After(deadline) {
				t.Fatal("the runtime is back and was not found again")
			}
		}
	}
}

func TestLargeRepliesUpToTheKubeletsLimit(t *testing.T) {
	s := fakecri.Start(t)
	client := dial(t, s.Endpoint(), "")
	s.AddImage(&runtimeapi.Image{Id: strings.Repeat("x", 15<<20)})
	if _, err := client.Images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
	s.AddImage(&runtimeapi.Image{Id: strings.Repeat("x", 2<<20)})
	if _, err := client.Images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{}); err == nil {
		t.Error("17 MiB were taken")
	}
}
