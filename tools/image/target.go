package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// A target is one tarball: a service for a platform. Its JSON is what --list prints.
type target struct {
	Service    string   `json:"service"`
	Platform   string   `json:"platform"`
	Image      string   `json:"image"`
	Tarball    string   `json:"tarball"`
	User       string   `json:"user"`
	Entrypoint []string `json:"entrypoint"`
	Files      []string `json:"files"`

	source Service
}

func targetsOf(opts options) ([]target, error) {
	selected, err := findServices(opts.services)
	if err != nil {
		return nil, err
	}
	var targets []target
	for _, service := range selected {
		for _, platform := range service.Platforms {
			if len(opts.platforms) == 0 || slices.Contains(opts.platforms, platform) {
				targets = append(targets, targetOf(service, platform, opts))
			}
		}
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("choose what to make: no service has a platform among %s", strings.Join(opts.platforms, ", "))
	}
	return targets, nil
}

func targetOf(service Service, platform string, opts options) target {
	_, architecture, _ := strings.Cut(platform, "/")
	return target{
		Service:    service.Name,
		Platform:   platform,
		Image:      service.reference(opts.stamp.Version),
		Tarball:    filepath.ToSlash(filepath.Join(opts.out, service.Name+"-"+architecture+".tar")),
		User:       user,
		Entrypoint: []string{service.binary()},
		Files:      service.contents(),
		source:     service,
	}
}

func (t target) build(ctx context.Context, out io.Writer, opts options) error {
	binary, err := compile(ctx, opts.root, t.source, t.Platform, opts.stamp)
	if err != nil {
		return err
	}
	image, err := assemble(opts.root, t.source, t.Platform, opts.stamp, binary)
	if err != nil {
		return err
	}
	file := t.Tarball
	if !filepath.IsAbs(file) {
		file = filepath.Join(opts.root, file)
	}
	if err := save(image, t.Image, opts.stamp.Version, file); err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return fmt.Errorf("digest image %s: %w", t.Image, err)
	}
	_, err = fmt.Fprintf(out, "%s %s %s %s\n", t.Tarball, t.Image, t.Platform, digest)
	return err
}

func printList(out io.Writer, targets []target) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(targets)
}
