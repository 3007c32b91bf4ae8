// Package hog builds the small static program that runs in the pods of the demo and of the tests
// with real containers: it takes memory at a chosen rate, and its signal handler stamps the
// SIGTERM that it gets.
//
// It is not a load generator for machines: it runs its command line once; src/hog.c
// documents that command line.
package hog

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/evictd/evictd/test/harness/stack"
)

//go:embed src/hog.c
var source []byte

// Image is the container image that Install makes: busybox, with the hog as /bin/hog.
const Image = "localhost/evictd/hog:1"

// Install compiles the hog into the stack's directory, imports Image into the stack's containerd
// and returns the path of the program.
func Install(ctx context.Context, s *stack.Stack) (string, error) {
	out, err := Compile(ctx, s.Dir, s.Command)
	if err != nil {
		return "", err
	}
	return out, Import(ctx, s, out)
}

// Import imports Image, with a hog compiled before, into the stack's containerd.
func Import(ctx context.Context, s *stack.Stack, program string) error {
	return s.Import(ctx, stack.BusyboxImage(Image, map[string]string{"/bin/hog": program}))
}

// Compile compiles the hog into dir with gcc, which command prepares (as
// exec.CommandContext does), and returns the path of the program.
func Compile(ctx context.Context, dir string, command func(context.Context, string, ...string) *exec.Cmd) (string, error) {
	src, out := filepath.Join(dir, "hog.c"), filepath.Join(dir, "hog")
	if err := os.WriteFile(src, source, 0o644); err != nil {
		return "", fmt.Errorf("write hog source: %w", err)
	}
	cmd := command(ctx, "gcc", "-std=gnu11", "-O2", "-Wall", "-static", "-pipe", "-o", out, src)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir) // no stray files elsewhere, even if killed
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile hog: %w: %s", err, bytes.TrimSpace(text))
	}
	return out, nil
}

// Stamps are the lines of a hog's stamp file: CLOCK_MONOTONIC nanoseconds by
// word ("ready", "go", "full", "term").
type Stamps map[string]int64

// ReadStamps reads a stamp file; a missing one has no stamps.
func ReadStamps(path string) (Stamps, error) {
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return Stamps{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read stamps: %w", err)
	}
	return parseStamps(string(raw))
}

func parseStamps(text string) (Stamps, error) {
	stamps := Stamps{}
	for line := range strings.Lines(text) {
		// A line without its end is still being written.
		line, whole := strings.CutSuffix(line, "\n")
		if !whole {
			break
		}
		word, digits, _ := strings.Cut(line, " ")
		ns, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("stamp line %q: %w", line, err)
		}
		stamps[word] = ns
	}
	return stamps, nil
}
