package kit_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
	"github.com/swarm-io/swarm-operator/kit"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

// allow gives a user all rights on some kinds in all namespaces until the spec ends.
func allow(ctx context.Context, user string, rules ...rbacv1.PolicyRule) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "kit-"}, Rules: rules}
	Expect(api.Create(ctx, role)).To(Succeed())
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	Expect(api.Create(ctx, binding)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(api.Delete(ctx, binding))).To(Succeed())
		Expect(client.IgnoreNotFound(api.Delete(ctx, role))).To(Succeed())
	})
}

func allVerbs(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"*"}}
}

var _ = It("[K14] a missing permission ends the program within the sync timeout, and it says which kind", func(ctx SpecContext) {
	namespace := createNamespace(ctx)
	user := "denied-" + namespace
	allow(ctx, user, allVerbs("example.swarm.io", "*"), allVerbs("", "services", "events"), allVerbs("coordination.k8s.io", "leases"),
		allVerbs("events.k8s.io", "events"))
	began := time.Now()
	r := run(namespace, "webapp-k14", "--sync-timeout=3s", "KUBECONFIG="+kubeconfigAs(user))
	// How long the program takes to start depends on the machine. A unit test of kit checks the timeout with a fake clock.
	Eventually(r.log.String).Should(ContainSubstring("starting server"))
	var failure error
	Eventually(r.exited).WithTimeout(10*time.Second).Should(Receive(&failure), "3 s are configured, and the default would be 30 s")
	var exit *exec.ExitError
	Expect(failure).To(BeAssignableToTypeOf(exit))
	Expect(time.Since(began)).To(BeNumerically(">", 3*time.Second))
	Expect(r.log.String()).
		To(ContainSubstring("caches not synced within 3s: Deployment: is the kind installed, and may we list and watch it?"))
	Expect(holder(ctx, namespace)()).To(BeEmpty(), "it never stood for election")
})

var _ = It("[K14] a cache that was asked for before the start cannot hold the program up either", func(ctx SpecContext) {
	namespace := createNamespace(ctx)
	user := "index-" + namespace
	allow(ctx, user, allVerbs("coordination.k8s.io", "leases"))
	o := operator([]string{namespace}, func(options *kit.Options, config *rest.Config) {
		options.SyncTimeout = time.Second
		config.Impersonate.UserName = user
	})
	Expect(kit.IndexOwner(ctx, o.Operator, &appsv1.Deployment{})).To(Succeed())
	o.start()
	Eventually(o.done).Should(Receive(MatchError(ContainSubstring("caches not synced within 1s: Deployment"))))
	Expect(o.Leadership.Term()).To(BeZero())
	allow(ctx, user, allVerbs("apps", "deployments")) // so that what is left of it in this process ends
	Eventually(o.Leadership.Fresh).Should(BeTrue())
})

var _ = It("[K13/ready-after-sync, K13/log-order] caches are synced before the program is ready, ready before it is elected, elected before controllers run", func(ctx SpecContext) {
	namespace := createNamespace(ctx)
	user := "late-" + namespace
	allow(ctx, user, allVerbs("example.swarm.io", "*"), allVerbs("", "services", "events"), allVerbs("coordination.k8s.io", "leases"),
		allVerbs("events.k8s.io", "events"))
	r := run(namespace, "webapp-k13", "KUBECONFIG="+kubeconfigAs(user))
	Eventually(getStatus(r.probes, "/healthz")).Should(Equal(200))
	Consistently(getStatus(r.probes, "/readyz"), time.Second).Should(Equal(500), "alive, not ready")
	Expect(holder(ctx, namespace)()).To(BeEmpty())

	allow(ctx, user, allVerbs("apps", "deployments"))
	Eventually(getStatus(r.probes, "/readyz")).Should(Equal(200))
	Eventually(holder(ctx, namespace)).Should(Equal(r.pod))
	Eventually(func() []string { return r.log.lines("Starting workers") }).ShouldNot(BeEmpty())
	Expect(r.log.String()).To(MatchRegexp(`(?s)caches synced, ready.*acquired lease.*Starting workers`))
})

var _ = It("[K19/metrics, K19/probes] Prometheus and the kubelet find what they ask for", func(ctx SpecContext) {
	namespace := createNamespace(ctx)
	r := run(namespace, "webapp-k19")
	app := webApp(ctx, namespace, "shop")
	Eventually(condition(ctx, app)).Should(HaveField("Reason", "Available"))
	Eventually(getStatus(r.probes, "/healthz")).Should(Equal(200))
	Eventually(getStatus(r.probes, "/readyz")).Should(Equal(200))
	// A reconcile is counted when it returns, which is after its last write is seen.
	Eventually(r.scrape).WithContext(ctx).Should(And(
		ContainSubstring(`swarm_reconcile_results_total{controller="webapp",outcome="done",reason=""}`),
		ContainSubstring(`controller_runtime_reconcile_total{controller="webapp",result="requeue_after"}`),
		ContainSubstring(`leader_election_master_status{name="webapp"} 1`),
		Not(ContainSubstring("shop")), // no metric is labelled by object name
	))
})

var _ = It("[K15/no-missed-object] an API server that restarts loses nothing: caches list again, nothing is missed", func(ctx SpecContext) {
	if os.Getenv("DEVCLUSTER_DATA") == "" {
		Skip("only our development cluster can restart its API server")
	}
	testcluster.AuditLog()
	namespace := createNamespace(ctx)
	reconciled := &names{}
	agent := "k15/" + namespace
	o := operator([]string{namespace}, func(_ *kit.Options, config *rest.Config) { config.UserAgent = agent })
	o.control("k15", func(_ context.Context, app *v1.WebApp) (kit.Result, error) {
		reconciled.add(fmt.Sprintf("%s:%d", app.Name, app.Spec.Port))
		return kit.Done(), nil
	})
	o.start()
	changed, deleted := webApp(ctx, namespace, "changed"), webApp(ctx, namespace, "deleted")
	Eventually(reconciled.list).Should(ContainElements("changed:8080", "deleted:8080"))

	restarted := time.Now()
	output, err := exec.CommandContext(ctx, root+"/bin/devcluster", "restart", "kube-apiserver").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	change(ctx, changed, func(app *v1.WebApp) { app.Spec.Port = 8081 })
	Expect(api.Delete(ctx, deleted)).To(Succeed())
	for i := range 20 {
		webApp(ctx, namespace, fmt.Sprint("new-", i))
	}
	wanted := []any{"changed:8081"}
	for i := range 20 {
		wanted = append(wanted, fmt.Sprintf("new-%d:8080", i))
	}
	Eventually(reconciled.list).WithTimeout(time.Minute).Should(ContainElements(wanted...))
	Expect(o.done).NotTo(Receive(), "the program lived through it")
	Eventually(isDeleted(ctx, deleted)).Should(BeTrue())
	Eventually(func(g Gomega) {
		cached := &v1.WebAppList{}
		g.Expect(o.GetClient().List(ctx, cached)).To(Succeed())
		g.Expect(cached.Items).To(HaveLen(21), "the cache forgot what was deleted")
	}).Should(Succeed())

	fresh := 0
	for _, request := range auditRequests(agent, restarted) {
		if request.Object.Resource == "webapps" && (request.Verb == "list" || containsAll(request.URI, "sendInitialEvents=true")) {
			fresh++
		}
	}
	Expect(fresh).To(BeNumerically(">=", 1), "its cache listed again")
})
