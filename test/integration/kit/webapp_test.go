package kit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

// A registry is the service outside of the cluster that the example registers WebApps in.
type registry struct {
	lock    sync.Mutex
	down    bool
	entries map[string]bool
	refused int
}

func (r *registry) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	r.lock.Lock()
	defer r.lock.Unlock()
	switch {
	case r.down:
		r.refused++
		http.Error(answer, "down", http.StatusServiceUnavailable)
	case request.Method == http.MethodPut:
		r.entries[request.URL.Path] = true
	case request.Method == http.MethodDelete:
		delete(r.entries, request.URL.Path)
	}
}

func (r *registry) hasEntry(path string) func() bool {
	return func() bool {
		r.lock.Lock()
		defer r.lock.Unlock()
		return r.entries[path]
	}
}

func (r *registry) setDown(down bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.down, r.refused = down, 0
}

func (r *registry) refusals() int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.refused
}

func startRegistry() (*registry, string) {
	r := &registry{entries: map[string]bool{}}
	listening := httptest.NewServer(r)
	DeferCleanup(listening.Close)
	return r, "REGISTRY_URL=" + listening.URL
}

func condition(ctx context.Context, app *v1.WebApp) func(Gomega) metav1.Condition {
	return func(g Gomega) metav1.Condition {
		found := meta.FindStatusCondition(getObject(ctx, app)(g).Status.Conditions, "Ready")
		g.Expect(found).NotTo(BeNil())
		return *found
	}
}

var _ = It("[S32/registered, S32/unregistered] an entry outside of the cluster comes and goes with its object, and a registry that is down only delays it", func(ctx SpecContext) {
	namespace := createNamespace(ctx)
	entries, address := startRegistry()
	r := run(namespace, "webapp-s32", address)
	app := webApp(ctx, namespace, "shop")
	Eventually(entries.hasEntry("/apps/" + namespace + "/shop")).Should(BeTrue())
	Eventually(condition(ctx, app)).Should(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", "Available")))
	Expect(app.Status.URL).To(Equal("http://shop." + namespace + ".svc"))

	By("deleting it while the registry is down")
	entries.setDown(true)
	Expect(api.Delete(ctx, app)).To(Succeed())
	Eventually(condition(ctx, app)).Should(HaveField("Reason", "RegistryUnavailable"))
	Eventually(eventsOf(ctx, app, "RegistryUnavailable")).ShouldNot(BeEmpty())
	Eventually(entries.refusals).Should(BeNumerically(">=", 2), "it is tried again")
	Expect(getObject(ctx, app)(Default).Finalizers).To(ConsistOf("example.swarm.io/registry"))

	By("stopping the operator, which must not make it forget")
	r.signal(syscall.SIGTERM)
	Eventually(r.exited).Should(Receive(BeNil()))
	run(namespace, "webapp-s32", address)
	entries.setDown(false)
	Eventually(isDeleted(ctx, app)).Should(BeTrue())
	Expect(entries.hasEntry("/apps/" + namespace + "/shop")()).To(BeFalse())
})

var _ = It("[K02] the same end comes of whatever happened before: drift, changes during an absence, a restart", func(ctx SpecContext) {
	namespace := createNamespace(ctx)
	r := run(namespace, "webapp-k02")
	app := webApp(ctx, namespace, "shop")
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}}
	image := func(g Gomega) string { return getObject(ctx, deployment)(g).Spec.Template.Spec.Containers[0].Image }
	Eventually(func(g Gomega) { getObject(ctx, deployment)(g); getObject(ctx, service)(g) }).Should(Succeed())

	By("drift")
	change(ctx, deployment, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "example/other:1" })
	Eventually(image).Should(Equal("example/web:1"))
	Expect(api.Delete(ctx, service)).To(Succeed())
	Eventually(getObject(ctx, service)).Should(HaveField("OwnerReferences", HaveLen(1)))

	By("changes while no operator runs")
	r.signal(syscall.SIGKILL)
	Eventually(r.exited).Should(BeClosed())
	change(ctx, app, func(app *v1.WebApp) { app.Spec.Image = "example/web:2" })
	Expect(api.Delete(ctx, service)).To(Succeed())
	late := webApp(ctx, namespace, "late")
	r = run(namespace, "webapp-k02")
	Eventually(image).Should(Equal("example/web:2"))
	Eventually(func(g Gomega) { getObject(ctx, service)(g) }).Should(Succeed())
	Eventually(condition(ctx, late)).Should(HaveField("Reason", "Available"))

	By("a restart in between, with nothing to do")
	Eventually(condition(ctx, app)).Should(HaveField("ObservedGeneration", getObject(ctx, app)(Default).Generation))
	before := []string{getObject(ctx, app)(Default).ResourceVersion, service.ResourceVersion,
		getObject(ctx, deployment)(Default).Spec.Template.Spec.Containers[0].Image}
	r.signal(syscall.SIGTERM)
	Eventually(r.exited).Should(Receive(BeNil()))
	r = run(namespace, "webapp-k02")
	Eventually(func() bool { return len(r.log.lines("Starting workers")) > 0 }).Should(BeTrue())
	Consistently(func(g Gomega) []string {
		return []string{getObject(ctx, app)(g).ResourceVersion, getObject(ctx, service)(g).ResourceVersion, image(g)}
	}, time.Second).Should(Equal(before), "nothing was written")
	all := &appsv1.DeploymentList{}
	Expect(api.List(ctx, all, client.InNamespace(namespace))).To(Succeed())
	Expect(all.Items).To(HaveLen(2), "no duplicates")
})

var _ = It("[K19/schema] the schema comes from the types: defaults and bounds work while nothing runs", func(ctx SpecContext) {
	app := &v1.WebApp{Spec: v1.WebAppSpec{Image: "example/web:1"}}
	app.Namespace, app.Name = createNamespace(ctx), "app"
	Expect(api.Create(ctx, app)).To(Succeed())
	Expect(app.Spec.Port).To(BeEquivalentTo(8080))
	Expect(*app.Spec.Replicas).To(BeEquivalentTo(1))
	app.Spec.Port = 70000
	Expect(api.Update(ctx, app)).To(MatchError(ContainSubstring("should be less than or equal to 65535")))
})

var _ = It("[K20] kubectl knows the kind by plural, short name, group and scope", func(ctx SpecContext) {
	output, err := exec.CommandContext(ctx, "kubectl", "api-resources", "--api-group=example.swarm.io").CombinedOutput()
	if err != nil {
		Skip("no kubectl on the PATH: " + err.Error())
	}
	Expect(string(output)).To(MatchRegexp(`webapps\s+wa\s+example.swarm.io/v1\s+true\s+WebApp`))
})
