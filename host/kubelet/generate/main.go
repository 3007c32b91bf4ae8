// Generate prepares a build of the kubelet with evictd as its eviction manager. It does not change
// the kubelet's sources, but writes an overlay and a go.mod of another name for
//
//	go build -modfile DIR/kubelet.mod -overlay DIR/overlay.json k8s.io/kubernetes/cmd/kubelet
//
// With -patch it prints a patch of the kubelet's sources instead.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/evictd/evictd/host/kubelet/overlay"
)

func main() {
	var (
		version = flag.String("k8s", "v1.37.2", "version of Kubernetes")
		out     = flag.String("out", "", "directory to write to")
		tests   = flag.Bool("tests", false, "also have the kubelet's own tests come to evictd")
		patch   = flag.Bool("patch", false, "print a patch, and write nothing")
	)
	flag.Parse()
	if err := run(context.Background(), *version, *out, *tests, *patch); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version, out string, tests, patch bool) error {
	if err := checkMinor(version); err != nil {
		return err
	}
	is, err := required(ctx)
	if err != nil {
		return err
	}
	sources, err := download(ctx, version)
	if err != nil {
		return err
	}
	files := overlay.Kubelet
	if tests {
		files = append(slices.Clip(files), overlay.Tests...)
	}
	changes, err := changed(sources, version, files)
	if err != nil {
		return err
	}
	if patch {
		text, err := changes.patch(ctx, sources)
		if err == nil {
			_, err = os.Stdout.Write(text)
		}
		return err
	}
	if out == "" {
		return fmt.Errorf("-out: want a directory")
	}
	out, err = filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := changes.write(out, sources); err != nil {
		return err
	}
	return writeModule(ctx, version, is, out)
}
