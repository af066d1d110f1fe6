package monitoring

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// applyDocs follows docs/how-to/alerts.md: its kustomization with our paths, and its commands unchanged.
func applyDocs(ctx context.Context) {
	GinkgoHelper()
	page, err := os.ReadFile(testcluster.FromRoot("docs", "how-to", "alerts.md"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		for _, name := range []string{"scrape.yaml", "token.yaml", "rules.yaml"} {
			// Kubernetes deletes the Secret together with the service account.
			testcluster.MustKubectl(ctx, "delete", "--ignore-not-found", "--filename",
				testcluster.FromRoot("deploy", "kustomize", "components", "monitoring", name))
		}
	})
	testcluster.MustKubectl(ctx, "apply", "--server-side", "--kustomize", overlay(block(page, "yaml")))
	for command := range strings.Lines(block(page, "sh")) {
		runDocCommand(ctx, strings.Fields(command)[1:])
	}
}

// runDocCommand runs a command that creates an object, and deletes the object when the suite ends.
func runDocCommand(ctx context.Context, arguments []string) {
	GinkgoHelper()
	verb := slices.Index(arguments, "create")
	Expect(verb).To(BeNumerically(">=", 0), "only what makes something can be undone: %s", arguments)
	undo := slices.Concat(arguments[:verb], []string{"delete"}, arguments[verb+1:verb+3])
	testcluster.MustKubectl(ctx, arguments...)
	DeferCleanup(func(ctx SpecContext) { testcluster.MustKubectl(ctx, undo...) })
}

// block is the first one of the page in a language.
func block(page []byte, language string) string {
	GinkgoHelper()
	found := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
	Expect(found).NotTo(BeNil(), "the page shows no %s", language)
	return string(found[1])
}

// overlay is a folder with the kustomization of the page, which has the operator from where `make install` has left it.
func overlay(text string) string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	from := func(elements ...string) string {
		path, err := filepath.Rel(folder, testcluster.FromRoot(elements...))
		Expect(err).NotTo(HaveOccurred())
		return path
	}
	text = strings.NewReplacer(
		"swarm-operator/deploy/kustomize/components/", from("deploy", "kustomize", "components")+"/",
		"swarm-operator/deploy/kustomize ", from("bin", "install")+" ",
	).Replace(text)
	Expect(text).NotTo(ContainSubstring("- swarm-operator/"))
	Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600)).To(Succeed())
	return folder
}
