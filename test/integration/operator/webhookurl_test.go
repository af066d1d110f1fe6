package operator

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

func showWebhookURL(ctx SpecContext) {
	ns, port := namespace(ctx, nil), ports.Free()
	registering := []string{
		onlyNamespace(ns), "SWARM_WEBHOOK_ENABLED=true", "SWARM_WEBHOOK_PORT=" + port, "SWARM_WEBHOOK_URL=https://127.0.0.1:" + port,
		"SWARM_CONTROLLER_LEADER_ELECTION_ENABLED=false", // do not wait for the Lease of a former spec
	}
	running := startOperator(registering...)
	Eventually(createStrayPod).WithContext(ctx).WithArguments(ns).Should(MatchError(ContainSubstring(noPool)))
	Eventually(running.Terminate()).Should(gexec.Exit(0))

	installation := registerWebhook(ctx, ns, port, nil)
	refused := startOperator(registering...)
	Eventually(refused).WithContext(ctx).Should(gexec.Exit(1))
	Expect(refused.Err.Contents()).
		To(ContainSubstring("belongs to an installed operator: remove it with `make uninstall`, or run beside it with webhook.url set to"))
	version := installation.ResourceVersion
	Expect(api.Get(ctx, client.ObjectKeyFromObject(installation), installation)).To(Succeed())
	Expect(installation.ResourceVersion).To(Equal(version), "the installation's configuration is as it was")
}
