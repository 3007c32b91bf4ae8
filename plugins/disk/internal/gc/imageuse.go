package gc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageIndex finds images by any of their names: ID with or without algorithm, tag, or digest.
type imageIndex map[string][]string

func indexImages(images []*runtimeapi.Image) imageIndex {
	ix := imageIndex{}
	for _, i := range images {
		id := i.GetId()
		ix[bare(id)] = append(ix[bare(id)], id)
		for _, name := range append(i.GetRepoTags(), i.GetRepoDigests()...) {
			ix[name] = append(ix[name], id)
		}
	}
	return ix
}

func bare(id string) string { return strings.TrimPrefix(id, "sha256:") }

// addTo adds the images of the first name that has any. Pass the runtime's ID first: a tag may
// have moved to another image.
func (ix imageIndex) addTo(images map[string]bool, names ...string) {
	for _, name := range names {
		if ids := ix[bare(name)]; name != "" && len(ids) > 0 {
			for _, id := range ids {
				images[id] = true
			}
			return
		}
	}
}

// used returns the images that containers in any state run or mount. It asks once per container for
// its mounts, which the list lacks. If the mounts of a container that may run cannot be read, images
// that no container is known to have run count as used: it may mount them.
func (g *imageGC) used(ctx context.Context, ix imageIndex) (map[string]bool, error) {
	reply, err := ask(ctx, g.step, g.client.Runtime.ListContainers, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	used := map[string]bool{}
	there := make(map[string]bool, len(reply.GetContainers()))
	for _, container := range reply.GetContainers() {
		ix.addTo(used, container.GetImageId(), container.GetImageRef(), container.GetImage().GetImage(), container.GetImage().GetUserSpecifiedImage())
		names, err := g.imageVolumes(ctx, container.GetId())
		switch {
		case err != nil && g.over(ctx):
			return nil, err
		case err != nil:
			g.fail(err)
			if container.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
				g.addNeverRun(used, ix)
			}
		}
		there[container.GetId()] = true
		for _, name := range names {
			ix.addTo(used, name)
		}
	}
	maps.DeleteFunc(g.volumes, func(id string, _ []string) bool { return !there[id] })
	return used, nil
}

// addNeverRun adds the images that no container is known to have run.
func (g *imageGC) addNeverRun(used map[string]bool, ix imageIndex) {
	for _, ids := range ix {
		for _, id := range ids {
			if g.records[id].lastUsed.IsZero() {
				used[id] = true
			}
		}
	}
}

func (g *imageGC) imageVolumes(ctx context.Context, container string) ([]string, error) {
	if names, ok := g.volumes[container]; ok {
		return names, nil
	}
	reply, err := ask(ctx, g.step, g.client.Runtime.ContainerStatus, &runtimeapi.ContainerStatusRequest{ContainerId: container})
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the image volumes of container %s: %w", container, err)
	}
	var names []string
	for _, m := range reply.GetStatus().GetMounts() {
		if m.GetImage() == nil {
			continue
		}
		names = append(names, m.GetImage().GetImage())
		if of, ok := any(m.GetImage()).(interface{ GetImageRef() string }); ok { // since Kubernetes 1.36
			names = append(names, of.GetImageRef())
		}
	}
	g.volumes[container] = names
	return names, nil
}

// errNoSandboxImage means that neither the runtime nor a sandbox names the sandboxes' image, and no image is pinned.
// Image GC would remove that image, and without it no pod can start.
var errNoSandboxImage = errors.New("no image is removed: the runtime neither names its sandbox image (config.sandboxImage in its verbose status, image in that of sandboxes) nor pins any image, so the sandbox image cannot be told from unused ones")

// sandboxImages returns the images from which the runtime makes sandboxes, and those of sandboxes that run. containerd 2 pins
// them, containerd 1 and CRI-O name one in their verbose status; the runtime itself resolves
// the name best. Another image that is pinned says nothing of theirs.
func (g *imageGC) sandboxImages(ctx context.Context, seen imageScan) (map[string]bool, error) {
	reply, err := ask(ctx, g.step, g.client.Runtime.Status, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return nil, fmt.Errorf("ask for the sandbox image: %w", err)
	}
	out, err := g.imagesOfSandboxes(ctx, seen.index)
	if err != nil {
		return nil, err
	}
	name := parseSandboxImage(reply.GetInfo()["config"])
	if name == "" {
		if len(seen.images) > 0 && len(out) == 0 && !slices.ContainsFunc(seen.images, (*runtimeapi.Image).GetPinned) {
			return nil, errNoSandboxImage
		}
		return out, nil
	}
	seen.index.addTo(out, name)
	image, err := ask(ctx, g.step, g.client.Images.ImageStatus, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	if err != nil {
		return nil, fmt.Errorf("ask for the sandbox image %s: %w", name, err)
	}
	seen.index.addTo(out, image.GetImage().GetId())
	return out, nil
}

// imagesOfSandboxes returns the images of the sandboxes that run, as far as their verbose status names them. It asks once per sandbox.
func (g *imageGC) imagesOfSandboxes(ctx context.Context, ix imageIndex) (map[string]bool, error) {
	ready := &runtimeapi.PodSandboxFilter{State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}}
	list, err := ask(ctx, g.step, g.client.Runtime.ListPodSandbox, &runtimeapi.ListPodSandboxRequest{Filter: ready})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	out, names := map[string]bool{}, map[string]string{}
	for _, s := range list.GetItems() {
		name, known := g.sandboxes[s.GetId()]
		if !known {
			reply, err := ask(ctx, g.step, g.client.Runtime.PodSandboxStatus, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: s.GetId(), Verbose: true})
			if gone(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("ask for the image of sandbox %s: %w", s.GetId(), err)
			}
			name = parseImage(reply.GetInfo()["info"])
		}
		names[s.GetId()] = name
		ix.addTo(out, name)
	}
	g.sandboxes = names
	return out, nil
}

// parseImage returns the image in a sandbox's verbose status, "" if it has none.
func parseImage(info string) string {
	var i struct {
		Image string `json:"image"`
	}
	if json.Unmarshal([]byte(info), &i) != nil {
		return ""
	}
	return i.Image
}

// parseSandboxImage returns the sandbox image from the configuration in a verbose status, "" if
// it names none.
func parseSandboxImage(config string) string {
	var c struct {
		SandboxImage string `json:"sandboxImage"`
	}
	if json.Unmarshal([]byte(config), &c) != nil {
		return ""
	}
	return c.SandboxImage
}
