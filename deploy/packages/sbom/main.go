// Command sbom writes which modules are in Go binaries, as their build information has
// it, in the form of CycloneDX.
//
// usage: sbom VERSION FILE BINARY...
package main

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: sbom VERSION FILE BINARY...")
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		log.Fatal(err)
	}
}

func write(version, file string, binaries []string) error {
	bom := cdx.NewBOM()
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	bom.Metadata = &cdx.Metadata{
		Timestamp: time.Unix(seconds, 0).UTC().Format(time.RFC3339),
		Component: &cdx.Component{BOMRef: "evictd", Type: cdx.ComponentTypeApplication, Name: "evictd", Version: version},
	}
	components, uses := map[string]cdx.Component{}, map[string]bool{}
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return fmt.Errorf("%s: %w", binary, err)
		}
		for _, c := range modules(info) {
			components[c.BOMRef], uses[c.BOMRef] = c, true
		}
	}
	all := make([]cdx.Component, 0, len(components))
	for _, c := range components {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	on := make([]string, len(all))
	for i, c := range all {
		on[i] = c.BOMRef
	}
	bom.Components, bom.Dependencies = &all, &[]cdx.Dependency{{Ref: "evictd", Dependencies: &on}}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return out.Close()
}

// modules are those of a binary, and the standard library.
func modules(info *debug.BuildInfo) []cdx.Component {
	all := []cdx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, module(m.Path, m.Version))
	}
	return all
}

func module(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}
