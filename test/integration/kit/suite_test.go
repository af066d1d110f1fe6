// Package kit_test tests package kit on a real API server: mostly with an operator inside the test process, and with the program in
// examples/webapp where processes are killed, frozen or denied something.
//
// It runs on any cluster that KUBECONFIG names, uses its own namespaces and leaves only the example's CRD behind. Specs that need the audit
// log or that restart the API server need our development cluster and are skipped on others: bin/devcluster run --audit -- go test
// ./test/integration/kit/...
package kit_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const root = "../../.."

// The following are set once, before the first spec.
var (
	apiServer *rest.Config
	scheme    = runtime.NewScheme()
	api       client.Client
	program   string // the built examples/webapp
)

func TestKit(t *testing.T) {
	testcluster.PrepareIntegration(t, 2*time.Minute, 20*time.Millisecond)
	log.SetLogger(logr.Discard()) // the caches' own; operators have theirs
	RunSpecs(t, "The kit")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	connect()
	install(ctx, filepath.Join(root, "examples/webapp/crd.yaml"))
	program = filepath.Join(GinkgoT().TempDir(), "webapp")
	output, err := exec.CommandContext(ctx, "go", "build", "-o", program, root+"/examples/webapp").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
})

func connect() {
	for _, add := range []func(*runtime.Scheme) error{
		v1.AddToScheme, corev1.AddToScheme, admissionv1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, coordinationv1.AddToScheme,
		eventsv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	apiServer = testcluster.Config()
	var err error
	api, err = client.New(apiServer, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
}

func install(ctx context.Context, file string) {
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	crd := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal(text, &crd.Object)).To(Succeed())
	Expect(api.Apply(ctx, client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner("kit-suite"), client.ForceOwnership)).To(Succeed())
	Eventually(func(g Gomega) {
		stored := &apiextensionsv1.CustomResourceDefinition{}
		g.Expect(api.Get(ctx, client.ObjectKeyFromObject(crd), stored)).To(Succeed())
		g.Expect(stored.Status.Conditions).To(ContainElement(And(
			HaveField("Type", apiextensionsv1.Established), HaveField("Status", apiextensionsv1.ConditionTrue))))
	}).Should(Succeed())
}

// createNamespace creates a namespace for one spec, with optional labels, and deletes it afterwards, including finalizers.
func createNamespace(ctx context.Context, labels ...string) string {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kit-", Labels: map[string]string{}}}
	for i := 0; i+1 < len(labels); i += 2 {
		object.Labels[labels[i]] = labels[i+1]
	}
	Expect(api.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		apps := &v1.WebAppList{}
		Expect(api.List(ctx, apps, client.InNamespace(object.Name))).To(Succeed())
		for _, app := range apps.Items {
			app.Finalizers = nil
			Expect(client.IgnoreNotFound(api.Update(ctx, &app))).To(Succeed())
		}
		Expect(client.IgnoreNotFound(api.Delete(ctx, object))).To(Succeed())
	})
	return object.Name
}

// webApp returns a WebApp without replicas: the cluster may have no nodes.
func webApp(ctx context.Context, namespace, name string) *v1.WebApp {
	app := &v1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1.WebAppSpec{Image: "example/web:1", Replicas: new(int32), Port: 8080},
	}
	Expect(api.Create(ctx, app)).To(Succeed())
	return app
}

// change updates the current object, and retries on conflicts.
func change[T client.Object](ctx context.Context, object T, edit func(T)) {
	GinkgoHelper()
	testcluster.Update(ctx, api, object, edit)
}

// getObject reads an object from the API server.
func getObject[T client.Object](ctx context.Context, object T) func(Gomega) T {
	return func(g Gomega) T {
		g.Expect(api.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		return object
	}
}

func isDeleted(ctx context.Context, object client.Object) func() bool {
	return func() bool { return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(object), object)) }
}

func annotate(key, value string) func(*v1.WebApp) {
	return func(app *v1.WebApp) {
		if app.Annotations == nil {
			app.Annotations = map[string]string{}
		}
		app.Annotations[key] = value
	}
}
