package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// target is an image as `tools/image --list` prints it.
type target struct {
	Service, Platform, Tarball string
	Files                      []string
}

var _ = DescribeTable("builds every image, static and with all its files", func(ctx SpecContext, platform string, machine elf.Machine) {
	out := GinkgoT().TempDir()
	builder(ctx, "--platforms", platform, "--out", out)
	var targets []target
	Expect(json.Unmarshal(builder(ctx, "--platforms", platform, "--out", out, "--list"), &targets)).To(Succeed())
	Expect(targets).NotTo(BeEmpty())
	for _, t := range targets {
		By(t.Service + " for " + t.Platform)
		files := layerOf(filesOf(open(t.Tarball)))
		for _, path := range t.Files {
			Expect(files).To(HaveKey(strings.TrimPrefix(path, "/")))
		}
		expectStatic(files[t.Service], machine)
	}
},
	Entry("[R18/both-built] for amd64", "linux/amd64", elf.EM_X86_64),
	Entry("[R18/both-built] for arm64", "linux/arm64", elf.EM_AARCH64),
)

func builder(ctx context.Context, arguments ...string) []byte {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "go", append([]string{"run", "./image", "--version", "v1.2.3"}, arguments...)...)
	command.Dir, command.Stderr = testcluster.FromRoot("tools"), GinkgoWriter
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred())
	return out
}

func open(path string) io.Reader {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Clean(path))
	Expect(err).NotTo(HaveOccurred())
	return bytes.NewReader(content)
}

func filesOf(archive io.Reader) map[string][]byte {
	GinkgoHelper()
	files := map[string][]byte{}
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		Expect(err).NotTo(HaveOccurred())
		files[header.Name], err = io.ReadAll(reader)
		Expect(err).NotTo(HaveOccurred())
	}
}

// layerOf returns the files of the only layer of an OCI archive.
func layerOf(archive map[string][]byte) map[string][]byte {
	GinkgoHelper()
	var index struct{ Manifests []struct{ Digest string } }
	Expect(json.Unmarshal(archive["index.json"], &index)).To(Succeed())
	Expect(index.Manifests).To(HaveLen(1))
	var manifest struct{ Layers []struct{ Digest string } }
	Expect(json.Unmarshal(archive[blob(index.Manifests[0].Digest)], &manifest)).To(Succeed())
	Expect(manifest.Layers).To(HaveLen(1))
	layer, err := gzip.NewReader(bytes.NewReader(archive[blob(manifest.Layers[0].Digest)]))
	Expect(err).NotTo(HaveOccurred())
	return filesOf(layer)
}

func blob(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }

func expectStatic(program []byte, machine elf.Machine) {
	GinkgoHelper()
	file, err := elf.NewFile(bytes.NewReader(program))
	Expect(err).NotTo(HaveOccurred())
	Expect(file.Machine).To(Equal(machine))
	for _, header := range file.Progs {
		Expect(header.Type).NotTo(Equal(elf.PT_INTERP), "needs a dynamic linker")
	}
	Expect(file.Section(".symtab")).To(BeNil())
	Expect(file.Section(".debug_info")).To(BeNil())
}
