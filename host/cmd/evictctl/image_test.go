package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/shared/testos"
)

// executable writes the header of an executable, and what it has as its dynamic linker.
func executable(t *testing.T, path string, machine elf.Machine, linker string) {
	t.Helper()
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	var programs []elf.Prog64
	if linker != "" {
		h.Phnum = 1
		programs = []elf.Prog64{{Type: uint32(elf.PT_INTERP), Off: 64 + 56, Filesz: uint64(len(linker))}}
	}
	var b bytes.Buffer
	err := errors.Join(binary.Write(&b, binary.LittleEndian, h), binary.Write(&b, binary.LittleEndian, programs))
	b.WriteString(linker)
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b.Bytes(), 0o700)); err != nil {
		t.Fatal(err)
	}
}

// unpack writes the files of an archive into a directory.
func unpack(t *testing.T, archive string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		content, errs := io.ReadAll(r)
		if err := errors.Join(err, errs); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheImageOfAPluginHasItForEachArchitecture(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	executable(t, "amd64/spot-first", elf.EM_X86_64, "")
	executable(t, "arm64/spot-first", elf.EM_AARCH64, "")
	const image = "registry.example.org/acme/spot-first:1.2.0"
	want := result{Out: `wrote spot-first_1.2.0_oci.tar with registry.example.org/acme/spot-first:1.2.0
on each node, or push it to your registry:
    ctr -n k8s.io images import spot-first_1.2.0_oci.tar
values of the chart:
    plugins:
    - {name: spot-first, image: "registry.example.org/acme/spot-first:1.2.0", path: /spot-first}
`}
	if diff := cmp.Diff(want, evictctl(t, "plugins", "image", "amd64/spot-first", "arm64/spot-first", image)); diff != "" {
		t.Fatalf("image (-want +got):\n%s", diff)
	}
	if got := evictctl(t, "plugins", "image", "--output", "again", "arm64/spot-first", "amd64/spot-first", image); got.Code != command.ExitFine {
		t.Fatalf("image --output: %+v", got)
	}
	first, err := os.ReadFile("spot-first_1.2.0_oci.tar")
	again, errs := os.ReadFile("again")
	if err := errors.Join(err, errs); err != nil || !bytes.Equal(first, again) {
		t.Errorf("%d and %d bytes, error %v, want the same twice", len(first), len(again), err)
	}

	index, err := layout.ImageIndexFromPath(unpack(t, "again"))
	if err != nil {
		t.Fatal(err)
	}
	names, err := index.IndexManifest()
	if err != nil || len(names.Manifests) != 1 || names.Manifests[0].Annotations["io.containerd.image.name"] != image {
		t.Fatalf("%+v, error %v, want %s", names, err, image)
	}
	images, err := index.ImageIndex(names.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := images.IndexManifest()
	if err != nil || len(manifests.Manifests) != 2 {
		t.Fatalf("%+v, error %v, want two images", manifests, err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		m := manifests.Manifests[i]
		one, err := images.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := one.ConfigFile()
		if err != nil || m.Platform.Architecture != arch || config.Architecture != arch || config.Created.Unix() != 86400 ||
			!cmp.Equal(config.Config.Entrypoint, []string{"/spot-first"}) {
			t.Errorf("%+v of %+v, error %v, want %s", config, m.Platform, err, arch)
		}
		layers, err := one.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%d layers, error %v, want one", len(layers), err)
		}
		content, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		files := tar.NewReader(content)
		h, err := files.Next()
		if err != nil || h.Name != "spot-first" || h.Mode != 0o755 {
			t.Fatalf("%+v, error %v, want the plugin", h, err)
		}
		got, err := io.ReadAll(files)
		source, errs := os.ReadFile(arch + "/spot-first")
		if err := errors.Join(err, errs); err != nil || !bytes.Equal(got, source) {
			t.Errorf("%s: another file, error %v", arch, err)
		}
		if h, err := files.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%+v, error %v, want no other file", h, err)
		}
	}
}

func TestWhatIsNoImageOfAPlugin(t *testing.T) {
	t.Chdir(t.TempDir())
	executable(t, "bin/x", elf.EM_X86_64, "")
	executable(t, "other/x", elf.EM_X86_64, "")
	executable(t, "dynamic", elf.EM_X86_64, "/lib64/ld-linux-x86-64.so.2\x00")
	executable(t, "mainframe", elf.EM_S390, "")
	testos.WriteFile(t, "script", "#!/usr/bin/python3\n", 0o700)
	const image = "registry.example.org/x:1"
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no binary":              {[]string{image}, command.ExitUsage, "1 arguments, want the plugin's executable and the name of the image"},
		"no registry":            {[]string{"bin/x", "x:1"}, command.ExitUsage, `"x:1": strict validation requires the registry to be explicitly defined, want registry, name and tag`},
		"no tag":                 {[]string{"bin/x", "registry.example.org/x"}, command.ExitUsage, "want registry, name and tag, such as registry.example.org/plugin:1.0.0"},
		"no file":                {[]string{"absent", image}, command.ExitFailure, "absent: open absent: no such file or directory"},
		"a script":               {[]string{"script", image}, command.ExitFailure, "script: is no ELF executable: a script needs an interpreter"},
		"a dynamic linker":       {[]string{"dynamic", image}, command.ExitFailure, "dynamic: needs /lib64/ld-linux-x86-64.so.2, which the image does not have; want a static executable"},
		"another architecture":   {[]string{"mainframe", image}, command.ExitFailure, "mainframe: is for EM_S390, want amd64, arm64, arm or 386"},
		"one architecture twice": {[]string{"bin/x", "other/x", image}, command.ExitFailure, "other/x: is for amd64, as bin/x is, want one for each architecture"},
	} {
		t.Run(name, func(t *testing.T) {
			got := evictctl(t, append([]string{"plugins", "image"}, c.args...)...)
			if got.Code != c.code || !strings.Contains(got.Errors, c.want) {
				t.Errorf("%+v, want code %d and %q", got, c.code, c.want)
			}
			if left, err := filepath.Glob("*.tar"); err != nil || len(left) > 0 {
				t.Errorf("%q, error %v left", left, err)
			}
		})
	}
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	if got := evictctl(t, "plugins", "image", "bin/x", image); got.Code != command.ExitFailure || !strings.Contains(got.Errors, "SOURCE_DATE_EPOCH") {
		t.Errorf("%+v, want an error that names SOURCE_DATE_EPOCH", got)
	}
}
