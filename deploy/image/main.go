// Command image writes the container image of evictd, one for each architecture, as an
// OCI archive. It pulls nothing: the image has only the binaries, and no base image.
//
// usage: image NAME:TAG REVISION FILE ARCH=BINARIES...
package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	if len(os.Args) < 5 {
		log.Fatal("usage: image NAME:TAG REVISION FILE ARCH=BINARIES...")
	}
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err != nil {
		log.Fatalf("SOURCE_DATE_EPOCH: %v", err)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3], time.Unix(seconds, 0).UTC(), os.Args[4:]); err != nil {
		log.Fatal(err)
	}
}

func write(name, revision, file string, created time.Time, arches []string) error {
	_, tag, ok := strings.Cut(filepath.Base(name), ":")
	if !ok {
		return fmt.Errorf("%q, want NAME:TAG", name)
	}
	labels := map[string]string{
		"org.opencontainers.image.title":       "evictd",
		"org.opencontainers.image.description": "node-pressure eviction, unbundled from the kubelet",
		"org.opencontainers.image.source":      "https://github.com/evictd/evictd",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     tag,
		"org.opencontainers.image.revision":    revision,
		"org.opencontainers.image.created":     created.Format(time.RFC3339),
	}
	images := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, a := range arches {
		arch, dir, _ := strings.Cut(a, "=")
		i, err := image(arch, dir, created, labels)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		images = mutate.AppendManifests(images, mutate.IndexAddendum{
			Add: i, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	// containerd reads the first name, other tools the second.
	err = p.AppendIndex(images, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag,
	}))
	return errors.Join(err, pack(dir, file, created))
}

func image(arch, dir string, created time.Time, labels map[string]string) (v1.Image, error) {
	content, err := files(dir, created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	i, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "make image"},
	})
	if err != nil {
		return nil, err
	}
	config, err := i.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: created}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/evictd"},
		Cmd:        []string{"run", "--config", "/etc/evictd/evictd.yaml"},
		Env:        []string{"PATH=/usr/bin"},
		Labels:     labels,
	}
	return mutate.ConfigFile(i, config)
}

// files returns the root filesystem of the image, with the programs at the packages' paths.
func files(dir string, created time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(h tar.Header, content []byte) error {
		h.ModTime, h.Format, h.Size = created, tar.FormatPAX, int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	for _, f := range []struct{ path, from, link, text string }{
		{path: "etc/"},
		{path: "etc/evictd/"},
		{path: "etc/group", text: "root:x:0:\nevictd-plugin:x:65532:\n"},
		{path: "etc/passwd", text: "root:x:0:0:root:/:/sbin/nologin\nevictd-plugin:x:65532:65532:plugin of evictd:/:/sbin/nologin\n"},
		{path: "tmp/"},
		{path: "usr/"},
		{path: "usr/bin/"},
		{path: "usr/bin/evictd", from: "evictd"},
		{path: "usr/libexec/"},
		{path: "usr/libexec/evictd/"},
		{path: "usr/libexec/evictd/builtin", from: "builtin"},
		{path: "usr/libexec/evictd/examples/"},
		{path: "usr/libexec/evictd/examples/oldest", from: "oldest"},
		{path: "usr/libexec/evictd/plugins/"},
		{path: "usr/libexec/evictd/plugins/disk", link: "../builtin"},
		{path: "usr/libexec/evictd/plugins/memory", link: "../builtin"},
		{path: "usr/libexec/evictd/plugins/pid", link: "../builtin"},
	} {
		h, content := tar.Header{Name: f.path, Mode: 0o755, Typeflag: tar.TypeReg}, []byte(f.text)
		switch {
		case strings.HasSuffix(f.path, "/"):
			h.Typeflag = tar.TypeDir
		case f.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		case f.from != "":
			var err error
			if content, err = os.ReadFile(filepath.Join(dir, f.from)); err != nil {
				return nil, err
			}
		default:
			h.Mode = 0o644
		}
		if err := add(h, content); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

// pack archives the regular files of a directory, sorted by name.
func pack(dir, file string, created time.Time) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: created, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return errors.Join(err, w.Close())
}
