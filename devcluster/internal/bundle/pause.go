package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// PauseImage is the name under which nodes know the pause image.
const PauseImage = "localhost/pause:devcluster"

// pause builds the pause program and wraps it into an image.
func (b Bundle) pause(ctx context.Context, source string) error {
	program := filepath.Join(b.folder, "pause")
	command := golang(ctx, source, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "./pause")
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build pause: %w\n%s", err, text)
	}
	image, err := imageOf(program)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(PauseImage)
	if err != nil {
		return fmt.Errorf("name the pause image: %w", err)
	}
	if err := tarball.WriteToFile(b.Pause(), tag, image); err != nil {
		return fmt.Errorf("write the pause image: %w", err)
	}
	return nil
}

func imageOf(program string) (v1.Image, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", program, err)
	}
	var files bytes.Buffer
	archive := tar.NewWriter(&files)
	header := &tar.Header{Name: "pause", Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}
	if err := archive.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("pack pause: %w", err)
	}
	if _, err := archive.Write(text); err != nil {
		return nil, fmt.Errorf("pack pause: %w", err)
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("pack pause: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	})
	if err != nil {
		return nil, fmt.Errorf("make the layer of pause: %w", err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("make the image of pause: %w", err)
	}
	return mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: diffs(image)},
		Config: v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"},
	})
}

func diffs(image v1.Image) []v1.Hash {
	config, err := image.ConfigFile()
	if err != nil {
		return nil
	}
	return config.RootFS.DiffIDs
}
