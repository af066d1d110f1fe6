// Package generate tests that the files of `make generate` are up to date. It takes a while, so it runs beside the other suites and not
// with the unit tests.
package generate

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

func TestGenerate(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Generated files")
}

// Files are generated in a copy: other suites read those of the working tree.
var _ = It("[S33/clean-diff] are up to date", func(ctx SpecContext) {
	root := GinkgoT().TempDir()
	list := exec.CommandContext(ctx, "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	list.Dir = testcluster.FromRoot()
	files, err := list.Output()
	Expect(err).NotTo(HaveOccurred())
	for file := range strings.SplitSeq(string(files), "\x00") {
		if content, err := os.ReadFile(testcluster.FromRoot(file)); err == nil { // deleted files do not exist
			Expect(os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o750)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(root, file), content, 0o600)).To(Succeed())
		}
	}
	generate := exec.CommandContext(ctx, "make", "generate")
	generate.Dir, generate.Env = root, slices.DeleteFunc(os.Environ(), isOfMake)
	text, err := generate.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "make generate: %s", text)
	for _, folder := range []string{"api", "deploy", "examples"} {
		text, err := exec.CommandContext(ctx, "diff", "-r", testcluster.FromRoot(folder), filepath.Join(root, folder)).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "make generate changes %s: %s", folder, text)
	}
})

// isOfMake reports whether a variable comes from a make that runs this test.
func isOfMake(variable string) bool {
	return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS")
}
