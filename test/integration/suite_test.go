// Package integration tests the API on a real API server without an operator: what is refused and with which message, what is accepted, and
// what kubectl shows.
//
// It runs on any cluster that KUBECONFIG names, uses its own namespace and leaves only the CRDs behind.
package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const (
	crdFolder    = "../../deploy/crds"
	sampleFolder = "../../deploy/samples"
)

// kinds are the plural names of all kinds of ours.
var kinds = []string{"swarms", "agents", "tasks", "workerpools", "swarmsnapshots"}

// The following are set once, before the first test.
var (
	server    *rest.Config
	api       client.Client
	namespace string
)

func TestIntegration(t *testing.T) {
	testcluster.PrepareIntegration(t, 2*time.Minute, 50*time.Millisecond)
	RunSpecs(t, "The API without an operator")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	connect()
	for _, file := range manifests(crdFolder) {
		crd := load(file)
		Expect(api.Apply(ctx, client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner("swarm-integration"), client.ForceOwnership)).
			To(Succeed())
	}
	for _, kind := range kinds {
		Eventually(isEstablished).WithContext(ctx).WithArguments(kind).Should(BeTrue(), "CRD %s is established", kind)
	}
	namespace = testcluster.KeptNamespace(ctx, api, "swarm-api-", nil).Name
	DeferCleanup(deleteNamespace)
})

func connect() {
	server = testcluster.Config()
	api = clientOf(server)
}

func clientOf(config *rest.Config) client.Client {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	made, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return made
}

func isEstablished(ctx context.Context, plural string) (bool, error) {
	crd, err := storedCRD(ctx, plural)
	if err != nil {
		return false, err
	}
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue, nil
		}
	}
	return false, nil
}

func storedCRD(ctx context.Context, plural string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, api.Get(ctx, client.ObjectKey{Name: plural + ".swarm.io"}, crd)
}

// deleteNamespace empties the namespace itself, since a bare API server has no namespace controller.
func deleteNamespace(ctx SpecContext) {
	for _, object := range []client.Object{
		&v1alpha1.Swarm{}, &v1alpha1.Agent{}, &v1alpha1.Task{}, &v1alpha1.WorkerPool{}, &v1alpha1.SwarmSnapshot{},
		&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	} {
		Expect(api.DeleteAllOf(ctx, object, client.InNamespace(namespace))).To(Succeed())
	}
	Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
}

func manifests(folder string) []string {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).To(HaveLen(len(kinds)), "one file per kind in %s", folder)
	return files
}

func load(file string) *unstructured.Unstructured {
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	return parse(string(text))
}

func parse(text string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(text), &object.Object)).To(Succeed(), text)
	return object
}
