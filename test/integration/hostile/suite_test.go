// Package hostile tests that one tenant cannot harm another. A tenant with all rights in its own namespace, and programs that use the link
// with the tokens of its pods but without our SDK, attack the operator while honest swarms work beside them. The operator is the real
// program, pods are simulated, and the honest agents are real and run in this process.
//
// Latency and memory are compared with what was measured before the attacks in the same run, so that the speed of the machine does not
// decide.
package hostile

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// suiteLabel labels the namespaces that the operator of this suite works in.
const suiteLabel = "hostile.suite.swarm.io/namespace"

// Set once, before the first spec.
var (
	cluster testcluster.Cluster
	api     client.WithWatch // reads and writes as the user of the cluster
)

func TestHostile(t *testing.T) {
	testcluster.PrepareIntegration(t, time.Minute, 100*time.Millisecond)
	log.SetLogger(GinkgoLogr)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "A hostile tenant")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = testcluster.Connect()
	api = cluster.API
	testcluster.InstallCRDs(ctx)
})

// namespaces creates namespaces that the operator works in. They are deleted, with everything in them, while the operator still runs.
func namespaces(ctx context.Context, prefixes ...string) []string {
	GinkgoHelper()
	var created []*corev1.Namespace
	var names []string
	for _, prefix := range prefixes {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix, Labels: map[string]string{suiteLabel: "true"}}}
		Expect(api.Create(ctx, object)).To(Succeed())
		created, names = append(created, object), append(names, object.Name)
	}
	DeferCleanup(func(ctx SpecContext) {
		for _, object := range created {
			Expect(client.IgnoreNotFound(api.Delete(ctx, object))).To(Succeed())
		}
		for _, object := range created {
			Eventually(checkDeleted).WithContext(ctx).WithArguments(object).WithTimeout(2 * time.Minute).WithPolling(time.Second).
				Should(MatchError(apierrors.IsNotFound, "NotFound"))
		}
	})
	for _, name := range names {
		account := client.ObjectKey{Namespace: name, Name: "default"}
		Eventually(api.Get).WithContext(ctx).WithArguments(account, &corev1.ServiceAccount{}).Should(Succeed())
	}
	return names
}
