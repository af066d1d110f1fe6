package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// An entry is a file of the image, owned by root and read-only: the user it runs as can change none of it.
type entry struct {
	path    string
	mode    int64
	content []byte
	link    string // what a symbolic link, which has no content, points to
}

// assemble makes an image of one layer out of a compiled binary and the service's files.
func assemble(root string, service Service, platform string, stamp Stamp, binary []byte) (v1.Image, error) {
	entries := []entry{{path: service.binary(), mode: 0o555, content: binary}}
	for _, file := range service.Files {
		content, err := os.ReadFile(filepath.Join(root, file.From))
		if err != nil {
			return nil, fmt.Errorf("add file to image %s: %w", service.Name, err)
		}
		entries = append(entries, entry{path: file.To, mode: 0o444, content: content})
	}
	for _, link := range service.Links {
		entries = append(entries, entry{path: link, mode: 0o555, link: service.binary()})
	}
	layer, err := layerOf(entries, stamp)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history(service, stamp), MediaType: types.OCILayer})
	if err != nil {
		return nil, fmt.Errorf("append layer to image %s: %w", service.Name, err)
	}
	return configure(image, service, platform, stamp)
}

func history(service Service, stamp Stamp) v1.History {
	return v1.History{
		Created:   v1.Time{Time: stamp.Date.UTC()},
		CreatedBy: "tools/image",
		Comment:   service.Name + " " + stamp.Version,
	}
}

func configure(image v1.Image, service Service, platform string, stamp Stamp) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read config of image %s: %w", service.Name, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, _ = strings.Cut(platform, "/")
	config.Created = v1.Time{Time: stamp.Date.UTC()}
	config.Config = v1.Config{
		User:       user,
		Entrypoint: []string{service.binary()},
		WorkingDir: "/",
		Labels:     stamp.labels(service.Name),
	}
	return mutate.ConfigFile(image, config)
}

// layerOf writes the entries in the order of their paths, each with the commit's time and root as its owner.
func layerOf(entries []entry, stamp Stamp) (v1.Layer, error) {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	var archive bytes.Buffer
	if err := writeEntries(&archive, entries, stamp); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	reopen := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(reopen, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	return layer, nil
}

func writeEntries(to io.Writer, entries []entry, stamp Stamp) error {
	writer := tar.NewWriter(to)
	for _, e := range entries {
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     strings.TrimPrefix(e.path, "/"),
			Mode:     e.mode,
			Size:     int64(len(e.content)),
			ModTime:  stamp.Date.UTC(),
			Format:   tar.FormatUSTAR,
		}
		if e.link != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, e.link
		}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		if _, err := writer.Write(e.content); err != nil {
			return err
		}
	}
	return writer.Close()
}
