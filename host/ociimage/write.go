package ociimage

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A File describes a file of an image: a directory if its path ends with a slash, a link to Link,
// an executable of this machine, or a text.
type File struct{ Path, Link, From, Text string }

// An Image describes an image for several architectures.
type Image struct {
	// Name is the whole reference, with registry and tag.
	Name    string
	Created time.Time
	Config  v1.Config
	// Files has the files for each architecture, by its GOARCH.
	Files map[string][]File
}

// Created returns the time of SOURCE_DATE_EPOCH, by default the beginning of 1970.
func Created() (time.Time, error) {
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w, want seconds since 1970", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// ParseName checks the name of an image, which a container runtime finds only if it is whole.
func ParseName(image string) (name.Tag, error) {
	tag, err := name.NewTag(image, name.StrictValidation)
	if err != nil {
		return tag, fmt.Errorf("%q: %w, want registry, name and tag, such as registry.example.org/plugin:1.0.0", image, err)
	}
	return tag, nil
}

// Write writes the image into a file.
func (i *Image) Write(file string) error {
	tag, err := ParseName(i.Name)
	if err != nil {
		return err
	}
	images := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(i.Files)) {
		image, err := i.of(arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		images = mutate.AppendManifests(images, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
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
		"io.containerd.image.name": i.Name, "org.opencontainers.image.ref.name": tag.TagStr(),
	}))
	if err != nil {
		return err
	}
	return pack(dir, file, i.Created)
}

// of returns the image for one architecture.
func (i *Image) of(arch string) (v1.Image, error) {
	content, err := layer(i.Files[arch], i.Created)
	if err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), mutate.Addendum{
		Layer:   l,
		History: v1.History{Created: v1.Time{Time: i.Created}, CreatedBy: "evictd"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created, config.Config = "linux", arch, v1.Time{Time: i.Created}, i.Config
	return mutate.ConfigFile(image, config)
}

// layer returns the root filesystem of an image.
func layer(files []File, created time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h, content := tar.Header{Name: f.Path, Mode: 0o755, ModTime: created, Format: tar.FormatPAX, Typeflag: tar.TypeReg}, []byte(f.Text)
		switch {
		case strings.HasSuffix(f.Path, "/"):
			h.Typeflag = tar.TypeDir
		case f.Link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
		case f.From != "":
			var err error
			if content, err = os.ReadFile(f.From); err != nil {
				return nil, err
			}
		default:
			h.Mode = 0o644
		}
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
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
	from := os.DirFS(dir)
	err = fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := fs.ReadFile(from, name)
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
