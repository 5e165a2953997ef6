// Command sbom writes the software bill of materials of a Go program, in CycloneDX
// 1.6, from what the compiler recorded in the program itself: its modules, their
// versions and hashes, the compiler and the settings of the build. The same program
// gives the same bytes: the time is that of the commit.
//
//	go run . PROGRAM >sbom.cdx.json
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

func write(w io.Writer, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	bom, err := describe(info, filepath.Base(program), sha256.Sum256(data))
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}

func describe(info *debug.BuildInfo, name string, hash [sha256.Size]byte) (*cdx.BOM, error) {
	program := cdx.Component{
		BOMRef: "program", Type: cdx.ComponentTypeApplication, Name: name, Version: info.Main.Version,
		PackageURL: purl(&info.Main),
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash[:])}},
	}
	settings, time := []cdx.Property{{Name: "go:version", Value: info.GoVersion}}, ""
	for _, s := range info.Settings {
		settings = append(settings, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
		if s.Key == "vcs.time" {
			time = s.Value
		}
	}
	program.Properties = &settings
	if time == "" {
		return nil, fmt.Errorf("no vcs.time: want a program that was built in a clone, with -buildvcs=true")
	}
	components := []cdx.Component{{BOMRef: "std", Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
	refs := []string{"std"}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		hashes, err := hashes(m.Sum)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		components = append(components, cdx.Component{BOMRef: purl(m), Type: cdx.ComponentTypeLibrary, Name: m.Path,
			Version: m.Version, PackageURL: purl(m), Hashes: hashes})
		refs = append(refs, purl(m))
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: time, Component: &program}
	bom.Components = &components
	// The compiler records which modules there are, not which of them needs which.
	bom.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return bom, nil
}

// hashes returns a module's "h1:" sum, which is the SHA-256 of the list of its files'
// hashes.
func hashes(sum string) (*[]cdx.Hash, error) {
	data, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:"))
	if err != nil || len(data) != sha256.Size {
		return nil, fmt.Errorf("sum %q: want h1: and 32 bytes in base64", sum)
	}
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(data)}}, nil
}

// purl is the package URL of a module.
func purl(m *debug.Module) string {
	return "pkg:golang/" + m.Path + "@" + cmp.Or(m.Version, "devel")
}
