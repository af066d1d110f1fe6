package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// save writes the image as a tarball that is an OCI layout (containerd reads the name from its index) and, by its
// manifest.json, also what `docker load` expects: one file for both.
func save(image v1.Image, reference, version, file string) error {
	entries, err := layoutOf(image, reference, version)
	if err != nil {
		return fmt.Errorf("lay out image %s: %w", reference, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("make folder for images: %w", err)
	}
	return replaceFile(file, func(to io.Writer) error { return writeEntries(to, entries, Stamp{}) })
}

// replaceFile never leaves a half-written file visible: a build may be interrupted, and an import may run beside it.
func replaceFile(name string, write func(io.Writer) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	defer os.Remove(temporary.Name()) // fails when all went well: the draft has its final name then
	err = write(temporary)
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(temporary.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("write file %q: %w", name, err)
	}
	return nil
}

func layoutOf(image v1.Image, reference, version string) ([]entry, error) {
	blobs, err := blobsOf(image)
	if err != nil {
		return nil, err
	}
	index, err := indexOf(image, reference, version)
	if err != nil {
		return nil, err
	}
	docker, err := dockerManifest(image, reference)
	if err != nil {
		return nil, err
	}
	return append([]entry{
		{path: "oci-layout", mode: 0o444, content: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{path: "index.json", mode: 0o444, content: index},
		{path: "manifest.json", mode: 0o444, content: docker},
	}, blobs...), nil
}

// indexOf names the image twice: by the full name containerd goes by, and by the tag other OCI tools go by.
func indexOf(image v1.Image, reference, version string) ([]byte, error) {
	descriptor, err := partial.Descriptor(image)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	descriptor.Platform = config.Platform()
	descriptor.Annotations = map[string]string{
		"io.containerd.image.name":          reference,
		"org.opencontainers.image.ref.name": version,
	}
	return json.Marshal(v1.IndexManifest{
		SchemaVersion: 2,
		MediaType:     types.OCIImageIndex,
		Manifests:     []v1.Descriptor{*descriptor},
	})
}

func dockerManifest(image v1.Image, reference string) ([]byte, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	layers := make([]string, 0, len(manifest.Layers))
	for _, layer := range manifest.Layers {
		layers = append(layers, blobPath(layer.Digest))
	}
	return json.Marshal([]map[string]any{{
		"Config":   blobPath(manifest.Config.Digest),
		"RepoTags": []string{reference},
		"Layers":   layers,
	}})
}

func blobsOf(image v1.Image) ([]entry, error) {
	config, err := partial.ConfigLayer(image)
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	blobs := []entry{{path: blobPath(digest), mode: 0o444, content: manifest}}
	for _, layer := range append([]v1.Layer{config}, layers...) {
		blob, err := blobOf(layer)
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, blob)
	}
	return blobs, nil
}

func blobOf(layer v1.Layer) (entry, error) {
	digest, err := layer.Digest()
	if err != nil {
		return entry{}, err
	}
	reader, err := layer.Compressed()
	if err != nil {
		return entry{}, err
	}
	defer reader.Close()
	content, err := io.ReadAll(reader)
	if err != nil {
		return entry{}, fmt.Errorf("read blob %s: %w", digest, err)
	}
	return entry{path: blobPath(digest), mode: 0o444, content: content}, nil
}

func blobPath(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }
