package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

var (
	repository = filepath.Join("..", "..")
	testStamp  = Stamp{Version: "v1.2.3", Commit: "0123abc", Date: time.Unix(1_700_000_000, 0)}
)

// hello is a service of one file and one name more, so that the order of files shows.
var hello = Service{
	Name: "hello", Module: "hello", Package: ".", Platforms: everyPlatform,
	Files: []File{{From: "hello/go.mod", To: "/etc/hello.mod"}},
	Links: []string{"/bin/greet"},
}

// copyHello puts the fixture into a folder of its own: a second clone on another machine, as far as Go can tell.
func copyHello(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "hello"), os.DirFS("testdata/hello")); err != nil {
		t.Fatal(err)
	}
	return root
}

func imageOf(t *testing.T, root string, service Service, platform string) v1.Image {
	t.Helper()
	binary, err := compile(t.Context(), root, service, platform, testStamp)
	if err != nil {
		t.Fatal(err)
	}
	image, err := assemble(root, service, platform, testStamp, binary)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func digestOf(t *testing.T, image v1.Image) v1.Hash {
	t.Helper()
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// contentOf reads the image's only layer back.
func contentOf(t *testing.T, image v1.Image) ([]*tar.Header, map[string][]byte) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("image has %d layers (%v), want 1", len(layers), err)
	}
	reader, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	return untar(t, reader)
}

func untar(t *testing.T, from io.Reader) (headers []*tar.Header, content map[string][]byte) {
	t.Helper()
	content = map[string][]byte{}
	for reader := tar.NewReader(from); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers, content
		}
		if err != nil {
			t.Fatal(err)
		}
		if content[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
		headers = append(headers, header)
	}
}

func TestTwoBuildsGiveOneDigest(t *testing.T) {
	digests := map[v1.Hash]string{}
	for _, platform := range everyPlatform {
		first := digestOf(t, imageOf(t, copyHello(t), hello, platform))
		t.Setenv("GOFLAGS", "-trimpath=false")
		second := digestOf(t, imageOf(t, copyHello(t), hello, platform))
		if first != second {
			t.Errorf("%s: built in two places: %s and %s", platform, first, second)
		}
		if other, taken := digests[first]; taken {
			t.Errorf("%s and %s have the same digest: one of them was not built", platform, other)
		}
		digests[first] = platform
	}
}

func TestAnotherCommitGivesAnotherDigest(t *testing.T) {
	root := copyHello(t)
	before := digestOf(t, imageOf(t, root, hello, everyPlatform[0]))
	changed := testStamp
	changed.Commit = "fffffff"
	binary, err := compile(t.Context(), root, hello, everyPlatform[0], changed)
	if err != nil {
		t.Fatal(err)
	}
	image, err := assemble(root, hello, everyPlatform[0], changed, binary)
	if err != nil {
		t.Fatal(err)
	}
	if digestOf(t, image) == before {
		t.Error("the commit left no trace in the image")
	}
}

func TestImageRunsAsNobodyAndSaysWhatItIs(t *testing.T) {
	config, err := imageOf(t, copyHello(t), hello, "linux/arm64").ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("runs as %q", config.Config.User)
	}
	if !slices.Equal(config.Config.Entrypoint, []string{"/hello"}) {
		t.Errorf("entry point is %q", config.Config.Entrypoint)
	}
	if config.OS != "linux" || config.Architecture != "arm64" {
		t.Errorf("is for %s/%s", config.OS, config.Architecture)
	}
	if !config.Created.Equal(testStamp.Date) {
		t.Errorf("created %s, want the commit's date %s", config.Created, testStamp.Date)
	}
	if got := config.Config.Labels["org.opencontainers.image.revision"]; got != testStamp.Commit {
		t.Errorf("revision label is %q", got)
	}
}

func TestLayerIsFixed(t *testing.T) {
	headers, _ := contentOf(t, imageOf(t, copyHello(t), hello, everyPlatform[0]))
	var names []string
	for _, header := range headers {
		names = append(names, header.Name)
		if header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(testStamp.Date) || header.Mode&0o222 != 0 {
			t.Errorf("%s: owner %d:%d, time %s, mode %o", header.Name, header.Uid, header.Gid, header.ModTime, header.Mode)
		}
	}
	if want := []string{"bin/greet", "etc/hello.mod", "hello"}; !slices.Equal(names, want) {
		t.Fatalf("layer holds %q, want %q", names, want)
	}
	if link := headers[0]; link.Typeflag != tar.TypeSymlink || link.Linkname != "/hello" || link.Size != 0 {
		t.Errorf("the second name is %+v", link)
	}
}
