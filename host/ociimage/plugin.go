package ociimage

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// WritePlugin writes the image of a plugin, which is one static executable for each architecture,
// under the name of the first one.
func WritePlugin(binaries []string, name, file string) error {
	created, err := Created()
	if err != nil {
		return err
	}
	plugin := filepath.Base(binaries[0])
	image := Image{Name: name, Created: created, Config: v1.Config{Entrypoint: []string{"/" + plugin}}, Files: map[string][]File{}}
	for _, b := range binaries {
		arch, err := architecture(b)
		if err != nil {
			return fmt.Errorf("%s: %w", b, err)
		}
		if former := image.Files[arch]; former != nil {
			return fmt.Errorf("%s: is for %s, as %s is, want one for each architecture", b, arch, former[0].From)
		}
		image.Files[arch] = []File{{Path: plugin, From: b}}
	}
	return image.Write(file)
}

var architectures = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_ARM: "arm", elf.EM_386: "386"}

// architecture returns Go's name of the architecture that a static executable is for.
func architecture(executable string) (string, error) {
	f, err := elf.Open(executable)
	if format := (*elf.FormatError)(nil); errors.As(err, &format) || errors.Is(err, io.EOF) {
		return "", errors.New("is no ELF executable: a script needs an interpreter, which this image does not have; " +
			"want an image of your own, whose container serves the plugin on a socket (docs/plugin-authors.md)")
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			linker, err := io.ReadAll(p.Open())
			return "", errors.Join(err, fmt.Errorf("needs %s, which the image does not have; want a static executable (in Go CGO_ENABLED=0)", bytes.TrimRight(linker, "\x00")))
		}
	}
	arch, ok := architectures[f.Machine]
	if !ok {
		return "", fmt.Errorf("is for %s, want amd64, arm64, arm or 386", f.Machine)
	}
	return arch, nil
}
