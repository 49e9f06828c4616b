package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom writes the SBOM of a binary, in CycloneDX' JSON: the modules and the version of Go that the linker recorded in
// the binary itself, so that the list is complete, and has nothing that is not in the binary.
func (s source) sbom(program, binary, file string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	bom := s.bill(program, info, fmt.Sprintf("%x", sha256.Sum256(content)))
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// bill returns the SBOM of a binary with the given checksum.
func (s source) bill(program string, info *buildinfo.BuildInfo, sum string) *cdx.BOM {
	product := cdx.Component{BOMRef: program, Type: cdx.ComponentTypeApplication, Name: program, Version: s.version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}}
	std := strings.TrimPrefix(info.GoVersion, "go")
	parts := []cdx.Component{library("std", std)}
	for _, m := range info.Deps {
		switch {
		case m.Path == "usher.dev/usher": // a folder of this repository
			parts = append(parts, library(m.Path, s.version))
			continue
		case m.Replace != nil:
			m = m.Replace
		}
		parts = append(parts, library(m.Path, m.Version))
	}
	uses := make([]string, len(parts))
	for i, p := range parts {
		uses[i] = p.BOMRef
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: s.date.Format("2006-01-02T15:04:05Z"), Component: &product}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: product.BOMRef, Dependencies: &uses}}
	return bom
}

// library returns a module of Go; std is the standard library.
func library(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url, Scope: cdx.ScopeRequired}
}
