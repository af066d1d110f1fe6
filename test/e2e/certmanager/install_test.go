package certmanager

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/certs"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// installKinds installs cert-manager's CRDs from its module until the suite ends.
func installKinds(ctx context.Context) {
	GinkgoHelper()
	folder, err := exec.CommandContext(ctx, "go", "-C", testcluster.FromRoot("test", "certmanager"), "list", "-m", "-f", "{{.Dir}}",
		"github.com/cert-manager/cert-manager").Output()
	Expect(err).NotTo(HaveOccurred())
	kinds := filepath.Join(strings.TrimSpace(string(folder)), "deploy", "crds")
	testcluster.MustKubectl(ctx, "apply", "--server-side", "--filename", kinds)
	DeferCleanup(func(ctx SpecContext) { testcluster.MustKubectl(ctx, "delete", "--filename", kinds) })
	testcluster.MustKubectl(ctx, "wait", "--for=condition=Established", "--filename", kinds)
}

// start runs cert-manager with these feature gates until the specs that need it have ended.
func start(gates ...string) {
	GinkgoHelper()
	session, err := gexec.Start(exec.Command(testcluster.FromRoot("bin", "cert-manager"), gates...), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Eventually(session.Terminate()).WithContext(ctx).Should(gexec.Exit(0)) })
}

// install adds the component to the installation. Afterwards the operator has its own certificate again.
func install(ctx context.Context) {
	GinkgoHelper()
	DeferCleanup(restore)
	before := changes(ctx)
	testcluster.MustKubectl(ctx, "apply", "--server-side", "--kustomize", "testdata")
	webhook.AwaitOperator(ctx)
	awaitTrusted(ctx)
	Expect(changes(ctx)-before).To(BeNumerically("<", 10), "no replica overwrites cert-manager, not even an earlier leader")
}

// changes returns how often the configuration of the webhook has changed.
func changes(ctx context.Context) int64 {
	GinkgoHelper()
	found, err := webhook.Configuration(ctx)
	Expect(err).NotTo(HaveOccurred())
	return found.Generation
}

// restore restores the state after make install.
func restore(ctx SpecContext) {
	testcluster.MustKubectl(ctx, "apply", "--server-side", "--kustomize", testcluster.FromRoot("bin", "install"))
	testcluster.MustKubectl(ctx, "delete", "--filename", testcluster.FromRoot("deploy", "kustomize", "components", "cert-manager",
		"certificate.yaml"))
	for _, name := range []string{servingCertificate, signing} {
		Expect(webhook.API.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testcluster.SystemNamespace, Name: name}})).
			To(Succeed())
	}
	webhook.AwaitOperator(ctx)
	Eventually(func(g Gomega) {
		own := &corev1.Secret{}
		g.Expect(webhook.API.Get(ctx, client.ObjectKey{Namespace: testcluster.SystemNamespace, Name: certs.SecretName}, own)).To(Succeed())
		g.Expect(webhook.TrustedCA(ctx)).To(HavePrefix(string(own.Data["ca.crt"])))
	}).WithContext(ctx).Should(Succeed(), "the operator keeps caBundle again")
}
