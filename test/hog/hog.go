// Package hog builds the small static program that plays the pods of the
// demo and of the tests with real containers: it takes memory at a chosen rate
// and its signal handler stamps the SIGTERM it gets.
//
// It is not a load generator for machines: it takes what its command line
// says, once, and src/hog.c documents that command line.
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
)

//go:embed src/hog.c
var source []byte

// Build compiles the hog into dir with gcc and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	src, out := filepath.Join(dir, "hog.c"), filepath.Join(dir, "hog")
	if err := os.WriteFile(src, source, 0o644); err != nil {
		return "", fmt.Errorf("write hog source: %w", err)
	}
	cmd := exec.CommandContext(ctx, "gcc", "-std=gnu11", "-O2", "-Wall", "-static", "-o", out, src)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile hog: %w: %s", err, bytes.TrimSpace(text))
	}
	return out, nil
}

// Stamps are the lines of a hog's stamp file: CLOCK_MONOTONIC nanoseconds by
// word ("ready", "go", "full", "term").
type Stamps map[string]int64

// ReadStamps reads a stamp file; one that is not there yet has no stamps.
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
