package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func saveHelloImage(t *testing.T) (v1.Image, string) {
	t.Helper()
	root := copyHello(t)
	image := imageOf(t, root, hello, "linux/amd64")
	file := filepath.Join(root, "out", "hello-amd64.tar")
	if err := save(image, "localhost/hello:v1.2.3", "v1.2.3", file); err != nil {
		t.Fatal(err)
	}
	return image, file
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestTarballNamesTheImage(t *testing.T) {
	image, file := saveHelloImage(t)
	_, content := untar(t, bytes.NewReader(read(t, file)))

	var index v1.IndexManifest
	if err := json.Unmarshal(content["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("index.json: %v, %d manifests", err, len(index.Manifests))
	}
	entry := index.Manifests[0]
	if entry.Digest != digestOf(t, image) {
		t.Errorf("index points at %s", entry.Digest)
	}
	if entry.Platform.String() != "linux/amd64" {
		t.Errorf("index says %s", entry.Platform)
	}
	if got := entry.Annotations["io.containerd.image.name"]; got != "localhost/hello:v1.2.3" {
		t.Errorf("containerd would call it %q", got)
	}
	if got := entry.Annotations["org.opencontainers.image.ref.name"]; got != "v1.2.3" {
		t.Errorf("OCI reference is %q", got)
	}
}

func TestTarballHoldsEachBlobUnderItsDigest(t *testing.T) {
	_, file := saveHelloImage(t)
	_, content := untar(t, bytes.NewReader(read(t, file)))
	blobs := 0
	for name, blob := range content {
		digest, isBlob := strings.CutPrefix(name, "blobs/sha256/")
		if !isBlob {
			continue
		}
		blobs++
		if sum := sha256.Sum256(blob); hex.EncodeToString(sum[:]) != digest {
			t.Errorf("%s holds something else", name)
		}
	}
	if blobs != 3 {
		t.Errorf("%d blobs, want manifest, config and layer", blobs)
	}
}

func TestTarballIsTheSameTwice(t *testing.T) {
	_, first := saveHelloImage(t)
	_, second := saveHelloImage(t)
	if !bytes.Equal(read(t, first), read(t, second)) {
		t.Error("two tarballs of one image differ")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(first), "*.tar.*")); len(left) != 0 {
		t.Errorf("drafts left behind: %q", left)
	}
}

// Foreign readers of both formats must agree with us about what we wrote.
func TestTarballIsReadByOthers(t *testing.T) {
	image, file := saveHelloImage(t)

	loaded, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatalf("as docker load reads it: %v", err)
	}
	if err := validate.Image(loaded); err != nil {
		t.Errorf("as docker load reads it: %v", err)
	}

	folder := t.TempDir()
	_, content := untar(t, bytes.NewReader(read(t, file)))
	for name, blob := range content {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), blob, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatalf("as an OCI layout: %v", err)
	}
	read, err := index.Image(digestOf(t, image))
	if err != nil {
		t.Fatalf("as an OCI layout: %v", err)
	}
	if err := validate.Image(read); err != nil {
		t.Errorf("as an OCI layout: %v", err)
	}
}

func TestList(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"--root", repository, "--list", "--version", "v9", "--services", "probe"}); err != nil {
		t.Fatal(err)
	}
	var targets []target
	if err := json.Unmarshal(out.Bytes(), &targets); err != nil {
		t.Fatal(err)
	}
	if len(targets) != 2 || targets[1].Tarball != "bin/images/probe-arm64.tar" || targets[1].Image != "localhost/probe:v9" {
		t.Errorf("listed %+v", targets)
	}
	if !slices.Equal(targets[0].Files, []string{"/LICENSE", "/probe"}) {
		t.Errorf("files %q", targets[0].Files)
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for reason, arguments := range map[string][]string{
		`find service "nope": the list has swarm-operator, swarm-agent, swarm-worker, swarm-research, swarm-streams, probe`: {"--services",
			"nope"},

		`no service has a platform among plan9/386`: {"--platforms", "plan9/386"},
		`use version "a b"`:                         {"--version", "a b"},
		`read --date`:                               {"--date", "yesterday"},
		`use commit "-X y=z"`:                       {"--commit", "-X y=z"},
	} {
		err := run(t.Context(), &bytes.Buffer{}, append([]string{"--root", repository, "--list"}, arguments...))
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: got %v, want %q", arguments, err, reason)
		}
	}
}
