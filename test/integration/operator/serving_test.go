package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// insecureClient calls the operator without credentials, and accepts any certificate: certificate_test.go verifies the one of the metrics.
var insecureClient = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
	DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
}}

// visit returns the status and the text of the answer.
func visit(ctx context.Context, url, token string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := insecureClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// code is the status of the answer.
func code(ctx context.Context, url, token string) (int, error) {
	status, _, err := visit(ctx, url, token)
	return status, err
}

// series adds up a metric over all series with this label.
func series(ctx context.Context, port, name, label string) (float64, error) {
	status, text, err := visit(ctx, "http://127.0.0.1:"+port+"/metrics", "")
	if err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("scrape: %d %w", status, err)
	}
	sum := 0.0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, name+"{") || !strings.Contains(line, label) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
		if err != nil {
			return 0, err
		}
		sum += value
	}
	return sum, nil
}

// gauge returns the value of a metric without labels.
func gauge(ctx context.Context, port, name string) (float64, error) {
	status, text, err := visit(ctx, metricsURL("http", port), "")
	if err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("scrape: %d %w", status, err)
	}
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}

func metricsURL(scheme, port string) string { return scheme + "://127.0.0.1:" + port + "/metrics" }

func showMetricsEnabled(ctx SpecContext) {
	port, health := ports.Free(), ports.Free()
	off := startOperator("SWARM_METRICS_ENABLED=false", "SWARM_METRICS_PORT="+port, "SWARM_HEALTH_PORT="+health)
	Eventually(code).WithContext(ctx).WithArguments("http://127.0.0.1:"+health+"/readyz", "").Should(Equal(http.StatusOK))
	_, err := code(ctx, metricsURL("https", port), "")
	Expect(err).To(MatchError(ContainSubstring("connection refused")))
	Eventually(off.Terminate()).Should(gexec.Exit(0))

	startOperator("SWARM_METRICS_ENABLED=true", "SWARM_METRICS_PORT="+port)
	Eventually(code).WithContext(ctx).WithArguments(metricsURL("https", port), "").Should(BeNumerically(">", 0))
}

func showMetricsPort(ctx SpecContext) {
	port := ports.Free()
	startOperator("SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT="+port)
	Eventually(series).WithContext(ctx).WithArguments(port, "controller_runtime_max_concurrent_reconciles", "").Should(BeNumerically(">", 0))
}

func showMetricsSecure(ctx SpecContext) {
	ns, port := namespace(ctx, nil), ports.Free()
	stranger, reader := token(ctx, ns, "stranger"), token(ctx, ns, "reader")
	allow(ctx, "swarm-metrics-reader", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "reader"},
		rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
	startOperator("SWARM_METRICS_ENABLED=true", "SWARM_METRICS_PORT="+port)
	Eventually(code).WithContext(ctx).WithArguments(metricsURL("https", port), "").Should(Equal(http.StatusUnauthorized))
	Expect(code(ctx, metricsURL("https", port), "no-token-at-all")).To(Equal(http.StatusUnauthorized))
	Expect(code(ctx, metricsURL("https", port), stranger)).To(Equal(http.StatusForbidden))
	Eventually(func(g Gomega) { // the series are there when controllers are, which is after the port is open
		status, text, err := visit(ctx, metricsURL("https", port), reader)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(status).To(Equal(http.StatusOK))
		g.Expect(text).To(ContainSubstring("controller_runtime_reconcile_total"))
	}).WithContext(ctx).Should(Succeed())
	plain, _ := code(ctx, metricsURL("http", port), reader) // refused, or cut off before that is read
	Expect(plain).NotTo(Equal(http.StatusOK))

	open := ports.Free()
	startOperator("SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT="+open, "SWARM_HEALTH_PORT="+ports.Free(),
		"SWARM_LINK_PORT="+ports.Free())
	Eventually(code).WithContext(ctx).WithArguments(metricsURL("http", open), "").Should(Equal(http.StatusOK))
}

// token is one of a service account made for it.
func token(ctx context.Context, ns, name string) string {
	GinkgoHelper()
	return testcluster.NewToken(ctx, api, ns, name)
}

// allow grants a subject these rights until the spec ends.
func allow(ctx context.Context, name string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}, Rules: rules}
	Expect(api.Create(ctx, role)).To(Succeed())
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	Expect(api.Create(ctx, binding)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		for _, made := range []client.Object{binding, role} {
			Expect(client.IgnoreNotFound(api.Delete(ctx, made))).To(Succeed())
		}
	})
}

// An operator that may not list anything is alive and not ready, and does not compete for the Lease.
func showHealth(ctx SpecContext) {
	ns, port := namespace(ctx, nil), ports.Free()
	healthz, readyz := "http://127.0.0.1:"+port+"/healthz", "http://127.0.0.1:"+port+"/readyz"
	startOperator(onlyNamespace(ns), "KUBECONFIG="+kubeconfigAs("swarm-spec-"+ns), "SWARM_HEALTH_PORT="+port,
		"SWARM_CONTROLLER_LEADER_ELECTION_NAMESPACE="+ns)
	Eventually(code).WithContext(ctx).WithArguments(healthz, "").Should(Equal(http.StatusOK))
	Expect(code(ctx, readyz, "")).To(Equal(http.StatusInternalServerError))
	Expect(leaseHolder(ctx, ns)).To(BeEmpty())

	allow(ctx, "swarm-spec", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "swarm-spec-" + ns},
		rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	Eventually(code).WithContext(ctx).WithArguments(readyz, "").Should(Equal(http.StatusOK))
	Eventually(leaseHolder).WithContext(ctx).WithArguments(ns).ShouldNot(BeEmpty())
	for _, check := range []string{"/ping", "/dispatcher", "/reconciles"} {
		Expect(code(ctx, healthz+check, "")).To(Equal(http.StatusOK), check)
	}
	Expect(code(ctx, healthz+"/unknown", "")).To(Equal(http.StatusNotFound))
}

func showCacheSyncTimeout(ctx SpecContext) {
	ns := namespace(ctx, nil)
	allow(ctx, "swarm-spec-sync", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "swarm-spec-" + ns},
		rbacv1.PolicyRule{APIGroups: []string{"", "apps", "swarm.io", "coordination.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"get"}})
	session := startOperator(onlyNamespace(ns), "KUBECONFIG="+kubeconfigAs("swarm-spec-"+ns), "SWARM_CONTROLLER_CACHE_SYNC_TIMEOUT=1s")
	Eventually(session).Should(gexec.Exit(1))
	Expect(string(session.Err.Contents())).To(And(ContainSubstring("caches not synced within 1s: "), ContainSubstring("ConfigMap, "),
		ContainSubstring("Swarm, ")))
}

// kubeconfigAs returns the kubeconfig of the cluster for another user.
func kubeconfigAs(user string) string {
	GinkgoHelper()
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	Expect(err).NotTo(HaveOccurred())
	config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].Impersonate = user
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
	return path
}
