// Command image writes the container image of evictd, one for each architecture, as an
// OCI archive. It pulls nothing: the image has only the binaries, and no base image.
//
// usage: image NAME:TAG REVISION FILE ARCH=BINARIES...
package main

import (
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/evictd/evictd/host/ociimage"
)

func main() {
	if len(os.Args) < 5 {
		log.Fatal("usage: image NAME:TAG REVISION FILE ARCH=BINARIES...")
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		log.Fatal(err)
	}
}

func write(name, revision, file string, arches []string) error {
	created, err := ociimage.Created()
	if err != nil {
		return err
	}
	tag, err := ociimage.ParseName(name)
	if err != nil {
		return err
	}
	image := ociimage.Image{Name: name, Created: created, Files: map[string][]ociimage.File{}, Config: v1.Config{
		Entrypoint: []string{"/usr/bin/evictd"},
		Cmd:        []string{"run", "--config", "/etc/evictd/evictd.yaml"},
		Env:        []string{"PATH=/usr/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "evictd",
			"org.opencontainers.image.description": "node-pressure eviction, unbundled from the kubelet",
			"org.opencontainers.image.source":      "https://github.com/evictd/evictd",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     tag.TagStr(),
			"org.opencontainers.image.revision":    revision,
			"org.opencontainers.image.created":     created.Format(time.RFC3339),
		},
	}}
	for _, a := range arches {
		arch, dir, _ := strings.Cut(a, "=")
		image.Files[arch] = files(dir)
	}
	return image.Write(file)
}

// files returns the root filesystem of the image, with the programs at the packages' paths.
func files(dir string) []ociimage.File {
	return []ociimage.File{
		{Path: "etc/"},
		{Path: "etc/evictd/"},
		{Path: "etc/group", Text: "root:x:0:\nevictd-plugin:x:65532:\n"},
		{Path: "etc/passwd", Text: "root:x:0:0:root:/:/sbin/nologin\nevictd-plugin:x:65532:65532:plugin of evictd:/:/sbin/nologin\n"},
		{Path: "tmp/"},
		{Path: "usr/"},
		{Path: "usr/bin/"},
		{Path: "usr/bin/evictctl", From: filepath.Join(dir, "evictctl")},
		{Path: "usr/bin/evictd", From: filepath.Join(dir, "evictd")},
		{Path: "usr/libexec/"},
		{Path: "usr/libexec/evictd/"},
		{Path: "usr/libexec/evictd/examples/"},
		{Path: "usr/libexec/evictd/examples/oldest", From: filepath.Join(dir, "oldest")},
		{Path: "usr/libexec/evictd/plugins/"},
		{Path: "usr/libexec/evictd/plugins/disk", Link: "../../../bin/evictd"},
		{Path: "usr/libexec/evictd/plugins/memory", Link: "../../../bin/evictd"},
		{Path: "usr/libexec/evictd/plugins/pid", Link: "../../../bin/evictd"},
	}
}
