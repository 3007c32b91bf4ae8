package stack

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"
)

// An Image is a container image of one layer, made from files of this machine.
type Image struct {
	// Name is the full reference, for example "localhost/evictd/pod:1".
	Name string
	// Files maps paths in the image to executables on this machine.
	Files map[string]string
	// Links maps symbolic links in the image to their targets.
	Links map[string]string
	// Command is the default command of containers.
	Command []string
	// FillerBytes, in FillerFiles files below /filler, take space. Their content differs from
	// image to image, so that images do not share them.
	FillerBytes int64
	FillerFiles int
}

// BusyboxImage returns an image with a static busybox under its usual names, and the given files.
func BusyboxImage(name string, files map[string]string) Image {
	image := Image{Name: name, Files: map[string]string{"bin/busybox": busyboxPath}, Links: map[string]string{}}
	for applet := range strings.FieldsSeq("sh sleep cat echo ls ps kill dd true false date mkdir rm touch head tail grep wget nc env id df du sync yes seq truncate ln") {
		image.Links["bin/"+applet] = "busybox"
	}
	for path, from := range files {
		image.Files[strings.TrimPrefix(path, "/")] = from
	}
	return image
}

// digested is a blob of an OCI image with its descriptor.
type digested struct {
	Media  string `json:"mediaType"`
	Digest string `json:"digest"`
	Size   int    `json:"size"`
	blob   []byte
}

func digest(media string, blob []byte) digested {
	return digested{Media: media, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(blob)), Size: len(blob), blob: blob}
}

// writeArchive writes the image as an OCI image layout in a tar, which is what
// `ctr images import` reads (opencontainers/image-spec, image-layout.md).
func (i Image) writeArchive(w io.Writer) error {
	content, err := i.layer()
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Name, err)
	}
	layer := digest("application/vnd.oci.image.layer.v1.tar", content)
	config, err := encode("application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Env": []string{"PATH=/bin"}, "Cmd": i.Command},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
	})
	if err != nil {
		return err
	}
	manifest, err := encode("application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": config, "layers": []digested{layer},
	})
	if err != nil {
		return err
	}
	index, err := encode("", map[string]any{"schemaVersion": 2, "manifests": []any{map[string]any{
		"mediaType": manifest.Media, "digest": manifest.Digest, "size": manifest.Size,
		"platform":    map[string]string{"architecture": runtime.GOARCH, "os": "linux"},
		"annotations": map[string]string{"io.containerd.image.name": i.Name},
	}}})
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	entries := []struct {
		name string
		blob []byte
	}{{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", index.blob}}
	for _, d := range []digested{layer, config, manifest} {
		entries = append(entries, struct {
			name string
			blob []byte
		}{"blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:"), d.blob})
	}
	for _, e := range entries {
		if err := addFile(archive, e.name, e.blob, 0o644); err != nil {
			return fmt.Errorf("image %s: %w", i.Name, err)
		}
	}
	return archive.Close()
}

func encode(media string, value any) (digested, error) {
	blob, err := json.Marshal(value)
	return digest(media, blob), err
}

// layer returns the root filesystem as a tar, in a fixed order and with fixed times, so that the
// same files always make the same image.
func (i Image) layer() ([]byte, error) {
	var buf bytes.Buffer
	archive := tar.NewWriter(&buf)
	dirs := []string{"bin", "dev", "etc", "proc", "sys", "tmp"}
	for file := range i.Files {
		for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if err := archive.WriteHeader(&tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: epoch}); err != nil {
			return nil, err
		}
	}
	for _, name := range sortedKeys(i.Files) {
		content, err := os.ReadFile(i.Files[name])
		if err != nil {
			return nil, err
		}
		if err := addFile(archive, name, content, 0o755); err != nil {
			return nil, err
		}
	}
	if err := i.addFiller(archive); err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(i.Links) {
		if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: i.Links[name], Mode: 0o777, ModTime: epoch}); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func (i Image) addFiller(archive *tar.Writer) error {
	if i.FillerFiles == 0 {
		return nil
	}
	dir := "filler/" + path.Base(i.Name) + "/"
	if err := archive.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755, ModTime: epoch}); err != nil {
		return err
	}
	size := int(i.FillerBytes) / i.FillerFiles
	content := bytes.Repeat([]byte(i.Name+"\n"), size/(len(i.Name)+1)+1)[:size]
	for n := range i.FillerFiles {
		if err := addFile(archive, fmt.Sprintf("%s%d", dir, n), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

var epoch = time.Unix(0, 0).UTC()

func addFile(archive *tar.Writer, name string, content []byte, mode int64) error {
	header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(content)), ModTime: epoch}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
