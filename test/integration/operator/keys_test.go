package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/internal/operator"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// A keyTest shows that a key changes something that can be seen from outside.
type keyTest struct {
	claims, description string
	verify              func(SpecContext)
}

// keyTests has one for every key of the configuration; that none is missing is checked here and, without a cluster, in internal/operator.
var keyTests = map[string]keyTest{
	"controller.cacheSyncTimeout": {"", "a missing right to list ends the program after this time, and it says which kinds",
		showCacheSyncTimeout},
	"controller.resyncPeriod": {"[R08]", "drift that no watch reports is repaired no later", showResync},
	"controller.workers": {"[R09/spread] [R09/pool]", "so many objects are reconciled at once, 5 unless told",
		showWorkers},
	"controller.leaderElection.enabled":       {"", "without it the Lease is taken at once, and the former holder ends", showForced},
	"controller.leaderElection.namespace":     {"", "the Lease is there", showLeaseNamespace},
	"controller.leaderElection.leaseDuration": {"", "a leader that was killed is followed after it", showLeaseDuration},
	"controller.namespaces":                   {"", "swarms elsewhere are not even seen", showNamespaces},
	"controller.namespaceSelector":            {"[R10/match-expressions]", "swarms elsewhere are left alone", showSelector},
	"controller.readOnly":                     {"", "spread reports and moves nothing", showReadOnly},
	"webhook.enabled":                         {"", "without it the port is closed", showWebhookEnabled},
	"webhook.port":                            {"", "the API server is answered there", showWebhookPort},
	"webhook.certDir": {"", "the certificate in it is shown and followed, and its CA is not ours to tell",
		showWebhookCertDir},
	"webhook.clientCA": {"", "callers without a certificate of that CA are not answered", showWebhookClientCA},
	"webhook.url": {"", "the operator registers the webhook there until it ends, unless an installed operator has",
		showWebhookURL},
	"nodeLabels.spot": {"[R05]", "nodes with any of these labels get the pods that belong on spot nodes", showSpotLabel},
	"nodeLabels.onDemand": {"[R05]", "nodes that are tainted with that label get the pods that belong on on-demand nodes",
		showOnDemandLabel},
	"spread.annotationPrefix":  {"", "annotations with it are read and written, and others are not", showAnnotationPrefix},
	"spread.pendingDeadline":   {"", "a pod waits that long for a spot node, and then goes elsewhere", showPendingDeadline},
	"spread.cooldown":          {"", "moves of one workload are that far apart", showCooldown},
	"spread.step":              {"", "so many pods are moved at once", showStep},
	"spread.provisioner":       {"", "without one no pod waits for the first node of a class", showProvisioner},
	"spread.notices":           {"", "pods leave a node with such a taint", showNotices},
	"spread.disruptionWindows": {"", "outside of them Ready pods stay", showDisruptionWindows},
	"link.port":                {"", "agents are told of it, and are welcome there", showLinkPort},
	"link.address":             {"", "agents are told of it", showLinkAddress},
	"link.agentLease":          {"", "agents are told of it when they connect", showAgentLease},
	"logging.level": {"", "debug tells of every reconcile, info of what happens, error of nothing while all is well",
		showLevel},
	"logging.format":  {"", "text is key=value", showFormat},
	"metrics.enabled": {"", "without it the port is closed", showMetricsEnabled},
	"metrics.port":    {"", "they are served there", showMetricsPort},
	"metrics.secure":  {"", "with it only authorized clients may read them, without it everyone", showMetricsSecure},
	"health.port": {"[K13/ready-after-sync]",
		"probes answer there, and the operator is ready when its caches are synced", showHealth},
	"api.port":   {"", "the introspection API answers there, but not without a token", showAPIPort},
	"client.qps": {"[R24]", "all controllers together make so many requests in a second", showQPS},
	"limits.connectionsPerSource": {"", "so many connections of one address are let in before their agents are known",
		showConnectionsPerSource},
	"limits.requestShare": {"", "one namespace uses up so much of the burst", showRequestShare},
	"limits.webhookConnectionsPerSource": {"", "so many connections of one address to the webhook are let in",
		showWebhookConnectionsPerSource},
	"client.burst":             {"[R24]", "so many requests may come at once", showBurst},
	"limits.tasksPerNamespace": {"", "so many unfinished tasks are taken up, and others when they have finished", showTasksPerNamespace},
	"limits.cacheBytesPerNamespace": {"", "beyond so many bytes larger objects are read from the API server, and work as before",
		showCacheBytesPerNamespace},
	"limits.bytesPerNamespace": {"", "so many bytes of unfinished tasks are taken up", showBytesPerNamespace},
}

var _ = Describe("[R07/every-key] The key", Serial, func() {
	for _, key := range operator.Keys() {
		known, found := keyTests[key]
		It(strings.TrimSpace(fmt.Sprintf("%s %s: %s", known.claims, key, known.description)), func(ctx SpecContext) {
			Expect(found).To(BeTrue(), "nothing shows that %s changes anything: add it to proofs", key)
			known.verify(ctx)
		})
	}
})

// onlyNamespace keeps an operator to one namespace, away from what other specs left behind.
func onlyNamespace(ns string) string {
	return "SWARM_CONTROLLER_NAMESPACE_SELECTOR={matchLabels: {kubernetes.io/metadata.name: " + ns + "}}"
}

func showSelector(ctx SpecContext) {
	ns, out := namespace(ctx, map[string]string{"tier": "gold"}), namespace(ctx, map[string]string{"tier": "tin"})
	startOperator("SWARM_CONTROLLER_NAMESPACE_SELECTOR={matchExpressions: [{key: tier, operator: In, values: [gold, silver]}]}")
	sample(ctx, out)
	sample(ctx, ns)
	Eventually(agents).WithContext(ctx).WithArguments(ns).Should(HaveLen(6))
	Expect(agents(ctx, out)).To(BeEmpty())
}

func showNamespaces(ctx SpecContext) {
	one, two, out := namespace(ctx, nil), namespace(ctx, nil), namespace(ctx, nil)
	startOperator("SWARM_CONTROLLER_NAMESPACES=" + one + ", " + two)
	for _, ns := range []string{out, one, two} {
		sample(ctx, ns)
	}
	for _, ns := range []string{one, two} {
		Eventually(agents).WithContext(ctx).WithArguments(ns).Should(HaveLen(6))
	}
	Expect(agents(ctx, out)).To(BeEmpty())
}

func showLinkPort(ctx SpecContext) {
	ns, port := namespace(ctx, nil), ports.Free()
	startOperator(onlyNamespace(ns), "SWARM_LINK_PORT="+port)
	sample(ctx, ns)
	Eventually(pods).WithContext(ctx).WithArguments(ns).Should(ContainElement(coder))
	Expect(linkDestination(ctx, ns).address).To(HaveSuffix(":" + port))
	Eventually(expectWelcome).WithContext(ctx).WithArguments(ns, linkDestination(ctx, ns)).Should(Succeed())
}

func showLinkAddress(ctx SpecContext) {
	ns := namespace(ctx, nil)
	startOperator(onlyNamespace(ns), "SWARM_LINK_ADDRESS=agents.example.test:443")
	sample(ctx, ns)
	Eventually(pods).WithContext(ctx).WithArguments(ns).Should(ContainElement(coder))
	Expect(linkDestination(ctx, ns).address).To(Equal("agents.example.test:443"))
}

func showAgentLease(ctx SpecContext) {
	ns := namespace(ctx, nil)
	startOperator(onlyNamespace(ns), "SWARM_LINK_AGENT_LEASE=50s")
	sample(ctx, ns)
	Eventually(pods).WithContext(ctx).WithArguments(ns).Should(ContainElement(coder))
	Eventually(advertisedLease).WithContext(ctx).WithArguments(ns).Should(Equal(50 * time.Second))
}

// advertisedLease returns the lease duration that an agent receives when it connects now.
func advertisedLease(ctx context.Context, ns string) (time.Duration, error) {
	answer, err := hello(ctx, ns, linkDestination(ctx, ns))
	return answer.GetWelcome().GetLease().AsDuration(), err
}
