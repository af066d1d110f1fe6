package operator

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// logEntries are the lines of the log so far. A line that is not JSON has nothing but a key "broken".
func logEntries(session *gexec.Session) []map[string]any {
	var lines []map[string]any
	for line := range strings.Lines(string(session.Err.Contents())) {
		if !strings.HasSuffix(line, "\n") {
			break // is being written
		}
		entry := map[string]any{}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			entry = map[string]any{"broken": line}
		}
		lines = append(lines, entry)
	}
	return lines
}

// runToReady is an operator that has seen a swarm through to its last ready pod and was stopped then.
func runToReady(ctx context.Context, ns string, settings ...string) *gexec.Session {
	GinkgoHelper()
	session := startOperator(append(settings, onlyNamespace(ns))...)
	swarm := createSampleNamed(ctx, ns, "research")
	Eventually(condition).WithContext(ctx).WithArguments(swarm).Should(ContainSubstring("6 have a ready pod"))
	Eventually(session.Terminate()).Should(gexec.Exit(0))
	Expect(session.Out.Contents()).To(BeEmpty(), "standard output is not for logs")
	return session
}

func showLevel(ctx SpecContext) {
	byLevel := map[string]string{}
	for _, level := range []string{"debug", "info", "error"} { // and warn in internal/operator
		byLevel[level] = string(runToReady(ctx, namespace(ctx, nil), "SWARM_LOGGING_LEVEL="+level).Err.Contents())
	}
	Expect(byLevel["debug"]).To(And(ContainSubstring(`"msg":"reconciled"`), ContainSubstring(`"msg":"starting"`)))
	Expect(byLevel["info"]).To(And(Not(ContainSubstring(`"msg":"reconciled"`)), ContainSubstring(`"msg":"starting"`)))
	Expect(byLevel["error"]).To(BeEmpty())
}

func showFormat(ctx SpecContext) {
	text := string(runToReady(ctx, namespace(ctx, nil), "SWARM_LOGGING_FORMAT=text").Err.Contents())
	for line := range strings.Lines(text) {
		Expect(line).To(MatchRegexp(`^time=\S+ level=[A-Z]+ msg=("|\S)`))
	}
	Expect(text).To(ContainSubstring("level=INFO msg=starting version="))
}

var _ = Describe("The log", Serial, func() {
	It("[R17/json] [R17/reconcile-id] [R17/request-id] is JSON from the first line to the last, and says which reconcile or request a line is of", func(ctx SpecContext) {
		ns, port, webhook := namespace(ctx, nil), ports.Free(), ports.Free()
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "none"}}
		quota.Spec.Hard = corev1.ResourceList{"count/services": resource.MustParse("0")}
		Expect(api.Create(ctx, quota)).To(Succeed())
		Eventually(func() (corev1.ResourceList, error) {
			err := api.Get(ctx, client.ObjectKeyFromObject(quota), quota)
			return quota.Status.Hard, err
		}).Should(HaveKey(corev1.ResourceName("count/services")), "a quota applies from then on")
		session := startOperator(append(webhookSettings(ns, webhook), "SWARM_LOGGING_LEVEL=debug", "SWARM_METRICS_ENABLED=true",
			"SWARM_METRICS_PORT="+port)...)
		registerWebhook(ctx, ns, webhook, nil)
		createSampleNamed(ctx, ns, "research")
		Eventually(failures).WithArguments(session).ShouldNot(BeEmpty())
		Eventually(createStrayPod).WithContext(ctx).WithArguments(ns).Should(MatchError(ContainSubstring(noPool)))
		Eventually(func() string {
			_, _ = code(ctx, metricsURL("http", port), "") // which net/http reports to package log
			return string(session.Err.Contents())
		}).Should(ContainSubstring("TLS handshake error"))
		Eventually(session.Terminate()).Should(gexec.Exit(0))

		Expect(logEntries(session)).To(HaveEach(And(HaveKey("time"), HaveKeyWithValue("level", BeElementOf("DEBUG", "INFO", "WARN", "ERROR")),
			HaveKey("msg"))), "lines that are broken or lack something")
		Expect(failures(session)).To(HaveEach(And(
			HaveKeyWithValue("controller", "swarm"), HaveKeyWithValue("namespace", ns), HaveKeyWithValue("name", "research"),
			HaveKeyWithValue("reconcileID", Not(BeEmpty())), HaveKeyWithValue("err", ContainSubstring("exceeded quota")))))
		Expect(logEntries(session)).To(ContainElement(And(
			HaveKeyWithValue("msg", "admission reviewed"), HaveKeyWithValue("namespace", ns), HaveKeyWithValue("name", "stray"),
			HaveKeyWithValue("requestID", Not(BeEmpty())), HaveKeyWithValue("allowed", false),
			HaveKeyWithValue("reason", ContainSubstring(noPool)))))
		Expect(uncorrelatedMessages(session)).To(HaveEach(MatchRegexp(processMessages)), "lines of a reconcile or a request without its ID")
	})

	It("has neither keys nor tokens in it, not even at debug", func(ctx SpecContext) {
		ns, port := namespace(ctx, nil), ports.Free()
		reader := token(ctx, ns, "reader")
		session := startOperator(onlyNamespace(ns), "SWARM_LOGGING_LEVEL=debug", "SWARM_METRICS_ENABLED=true", "SWARM_METRICS_PORT="+port)
		createSampleNamed(ctx, ns, "research")
		Eventually(pods).WithContext(ctx).WithArguments(ns).Should(ContainElement(coder))
		Eventually(expectWelcome).WithContext(ctx).WithArguments(ns, linkDestination(ctx, ns)).Should(Succeed())
		Eventually(code).WithContext(ctx).WithArguments(metricsURL("https", port), reader).Should(Equal(http.StatusForbidden))
		secret, err := authoritySecret(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Delete(ctx, secret)).To(Succeed()) // so that a new one is created during the spec
		Eventually(publishedSwarmCA).WithContext(ctx).WithArguments(ns).ShouldNot(Equal(string(secret.Data["ca.crt"])))
		renewed, err := authoritySecret(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(session.Terminate()).Should(gexec.Exit(0))

		said := session.Err.Contents()
		Expect(said).To(ContainSubstring(`"msg":"reconciled"`))
		for _, forbidden := range append(keysIn(secret, renewed), "PRIVATE KEY", "Bearer", "eyJ", reader) { // eyJ begins every token
			Expect(bytes.Contains(said, []byte(forbidden))).To(BeFalse(), "the log has %.12s...", forbidden)
		}
	})
})

// processMessages matches what is logged outside of reconciles and requests: how the process starts and stops, its caches, its Lease,
// connections that never became a request, and copies of Events.
const processMessages = `^(starting|stopped|caches synced, ready|loaded the webhook certificate|[Ss]tarting \w+( server)?|Serving \w+ server|Registering webhook|` +
	`Listing and watching|Caches populated|Exiting watch because .*|Watch close.*|Got a Retry-After response|Attempting to acquire leader lease\.\.\.|` +
	`Successfully acquired lease|Shutdown signal received, .*|All workers finished|[Ss]hutting down .*|Stopping .*|Wait completed, .*|` +
	`http: TLS handshake error .*|Event occurred)$`

// uncorrelatedMessages returns the messages of lines that carry neither the ID of a reconcile nor that of a request, each message once.
func uncorrelatedMessages(session *gexec.Session) []string {
	messages := map[string]bool{}
	for _, line := range logEntries(session) {
		if line["reconcileID"] == nil && line["requestID"] == nil {
			messages[fmt.Sprint(line["msg"])] = true
		}
	}
	return slices.Sorted(maps.Keys(messages))
}

// failures are the lines about reconciles that failed.
func failures(session *gexec.Session) []map[string]any {
	var result []map[string]any
	for _, line := range logEntries(session) {
		if line["msg"] == "Reconciler error" {
			result = append(result, line)
		}
	}
	return result
}

// keysIn returns the private keys in Secrets, in several encodings.
func keysIn(secrets ...*corev1.Secret) []string {
	GinkgoHelper()
	var result []string
	for _, secret := range secrets {
		for _, name := range []string{"ca.key", "tls.key"} {
			block, _ := pem.Decode(secret.Data[name])
			Expect(block).NotTo(BeNil(), name)
			written := strings.Split(string(secret.Data[name]), "\n")
			result = append(result, written[1], base64.StdEncoding.EncodeToString(secret.Data[name])[40:80], fmt.Sprintf("%d", block.Bytes[:16]))
		}
	}
	return result
}
