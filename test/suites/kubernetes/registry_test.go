package kubernetes_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1image "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/chartvalues"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// What a release pushes is installed as a stranger would: chart and image from a registry, in make nightly both verified, and
// refused after one byte has changed.
func TestAReleaseFromARegistry(t *testing.T) {
	const version = "1.2.3"
	// In a cluster of its own: a kubelet that has pulled an image refuses it by another name to pods that never pull.
	c := start(t, cluster.Options{Node: "release"})
	dir := t.TempDir()
	address, storage := startRegistry(t, dir)
	run := func(program string, args ...string) (string, error) {
		cmd := exec.CommandContext(soon(t), program, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "COSIGN_PASSWORD=", "HOME="+dir, "HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir, "SOURCE_DATE_EPOCH=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	mustRun := func(program string, args ...string) string {
		t.Helper()
		out, err := run(program, args...)
		if err != nil {
			t.Fatalf("%s %q: %v: %s", program, args, err, out)
		}
		return out
	}
	helm, cosign := os.Getenv("EVICTD_HELM"), os.Getenv("EVICTD_COSIGN")
	script, err := filepath.Abs("../../../deploy/packages/chart.sh")
	must(t, err)

	image := push(t, os.Getenv("EVICTD_IMAGE"), address+"/evictd/evictd:"+version)
	mustRun(script, version, os.Getenv("EVICTD_IMAGE"), dir)
	pushed := mustRun(helm, "push", "evictd-"+version+".tgz", "oci://"+address+"/evictd/charts", "--plain-http")
	_, digest, _ := strings.Cut(pushed, "sha256:")
	chartRef := address + "/evictd/charts/evictd@sha256:" + strings.TrimSpace(digest)
	if cosign != "" {
		verify := []string{"verify", "--key", "cosign.pub", "--insecure-ignore-tlog", "--allow-http-registry"}
		mustRun(cosign, "generate-key-pair")
		for _, signed := range []string{image.String(), chartRef} {
			mustRun(cosign, "sign", "--key", "cosign.key", "--tlog-upload=false", "--use-signing-config=false", "--allow-http-registry", "--yes", signed)
			mustRun(cosign, append(verify, signed)...)
		}
		other := push(t, os.Getenv("EVICTD_IMAGE"), address+"/evictd/other:"+version)
		if out, err := run(cosign, append(verify, other.String())...); err == nil {
			t.Errorf("an image that was not signed is verified: %s", out)
		}
	}

	values, err := chartvalues.For(t.Context(), c, address+"/evictd/evictd", "")
	must(t, err)
	values["image"].(map[string]any)["pullPolicy"] = "Always"
	h := &chart{c: c, values: values, of: []string{"oci://" + address + "/evictd/charts/evictd", "--version", version, "--plain-http"}}
	began := time.Now()
	h.helm(t, "install")
	t.Logf("  ready %.1f s after helm install", time.Since(began).Seconds())
	running, err := c.Kubectl(soon(t), "", "-n", "evictd", "get", "pods", "-o", "jsonpath={.items[*].status.containerStatuses[*].imageID}")
	must(t, err)
	if !strings.Contains(running, image.DigestStr()) {
		t.Errorf("pods run %s, want %s", running, image)
	}
	h.helm(t, "uninstall")

	changeOneByte(t, storage, filepath.Join(dir, "evictd-"+version+".tgz"))
	if out, err := run(helm, "pull", "oci://"+address+"/evictd/charts/evictd", "--version", version, "--plain-http"); err == nil {
		t.Errorf("a changed chart is pulled: %s", out)
	}
}

// startRegistry starts a registry on loopback and returns its address and where it has its blobs.
func startRegistry(t *testing.T, dir string) (address, storage string) {
	t.Helper()
	port, err := cluster.FreePort(t.Context())
	must(t, err)
	address, storage = fmt.Sprintf("127.0.0.1:%d", port), filepath.Join(dir, "registry")
	config := filepath.Join(dir, "registry.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, "{version: 0.1, storage: {filesystem: {rootdirectory: %s}}, http: {addr: %q}}\n", storage, address), 0o600))
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Getenv("EVICTD_REGISTRY"), "serve", config)
	cmd.Stdout, cmd.Stderr = &log, &log
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of the registry:\n%s", log.String())
		}
	})
	repository, err := name.NewRepository(address + "/evictd/evictd")
	must(t, err)
	for ctx := soon(t); ; must(t, stack.Pause(ctx, 50*time.Millisecond)) {
		if _, err := remote.Catalog(ctx, repository.Registry); err == nil {
			return address, storage
		}
	}
}

// push pushes the image index in an OCI archive.
func push(t *testing.T, archive, to string) name.Digest {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Open(archive)
	must(t, err)
	defer file.Close()
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		if h.FileInfo().IsDir() {
			continue
		}
		path := filepath.Join(dir, h.Name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		blob, err := os.Create(path)
		must(t, err)
		_, err = io.Copy(blob, r)
		must(t, err)
		must(t, blob.Close())
	}
	of, err := layout.ImageIndexFromPath(dir)
	must(t, err)
	manifest, err := of.IndexManifest()
	must(t, err)
	images, err := of.ImageIndex(manifest.Manifests[0].Digest)
	must(t, err)
	tag, err := name.NewTag(to)
	must(t, err)
	must(t, remote.WriteIndex(tag, images, remote.WithContext(soon(t))))
	var digest v1image.Hash
	digest, err = images.Digest()
	must(t, err)
	return tag.Digest(digest.String())
}

// changeOneByte changes a byte of the blob of a registry that has the contents of a file.
func changeOneByte(t *testing.T, storage, file string) {
	t.Helper()
	contents, err := os.ReadFile(file)
	must(t, err)
	changed := 0
	must(t, filepath.WalkDir(storage, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		blob, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(blob, contents) {
			return err
		}
		changed++
		blob[len(blob)/2]++
		return os.WriteFile(path, blob, 0o600)
	}))
	if changed != 1 {
		t.Fatalf("%d blobs have the contents of %s, want 1", changed, file)
	}
}
