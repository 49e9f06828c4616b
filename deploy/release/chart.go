package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// repository is where the source is.
const repository = "https://github.com/usher-dev/usher"

// Media types of Helm, which registries and Artifact Hub know charts by.
const (
	chartConfig  = "application/vnd.cncf.helm.config.v1+json"
	chartContent = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// pushChart pushes a packaged chart as `helm push` does, and returns its address with the digest.
func pushChart(ctx context.Context, file, reference string) (string, error) {
	to, err := name.NewTag(reference)
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	about, err := aboutChart(content)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	made, err := chartImage(content, about)
	if err != nil {
		return "", err
	}
	if err := remote.Write(to, made, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", err
	}
	digest, err := made.Digest()
	return to.Context().Name() + "@" + digest.String(), err
}

// aboutChart returns the Chart.yaml of a packaged chart as JSON.
func aboutChart(content []byte) ([]byte, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if err != nil {
			return nil, errors.Join(errors.New("no Chart.yaml"), err)
		}
		if h.Name == "usher/Chart.yaml" {
			text, err := io.ReadAll(r)
			if err != nil {
				return nil, err
			}
			return yaml.YAMLToJSON(text)
		}
	}
}

// packaged is a chart as an artifact of a registry.
type packaged struct {
	config, manifest []byte
	layer            v1.Layer
}

// RawConfigFile implements partial.CompressedImageCore.
func (p packaged) RawConfigFile() ([]byte, error) { return p.config, nil }

// RawManifest implements partial.CompressedImageCore.
func (p packaged) RawManifest() ([]byte, error) { return p.manifest, nil }

// MediaType implements partial.CompressedImageCore.
func (p packaged) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (p packaged) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return p.layer, nil }

// chartImage returns the artifact of a packaged chart: its only layer, with its Chart.yaml, as JSON, as the configuration.
func chartImage(content, about []byte) (v1.Image, error) {
	var chart struct{ Name, Version, Description string }
	if err := json.Unmarshal(about, &chart); err != nil {
		return nil, err
	}
	made := packaged{config: about, layer: static.NewLayer(content, chartContent)}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: describe(chartConfig, about), Layers: []v1.Descriptor{describe(chartContent, content)},
		Annotations: map[string]string{
			"org.opencontainers.image.title": chart.Name, "org.opencontainers.image.version": chart.Version,
			"org.opencontainers.image.description": chart.Description, "org.opencontainers.image.source": repository,
		}}
	var err error
	if made.manifest, err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	return partial.CompressedToImage(made)
}

// describe returns the descriptor of a blob.
func describe(of types.MediaType, blob []byte) v1.Descriptor {
	digest, size, _ := v1.SHA256(bytes.NewReader(blob)) // of memory
	return v1.Descriptor{MediaType: of, Size: size, Digest: digest}
}
