// Package link tests on a real API server who may open the link: tokens come from TokenRequests and are checked by TokenReviews. A token is
// valid for at least ten minutes, so on our own cluster an expired one is created from a real one, with times in the past and a new
// signature by the API server's own key.
package link

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const account = "agents"

// Set once, before the first test.
var (
	api       kubernetes.Interface
	namespace string
)

func TestLink(t *testing.T) {
	testcluster.PrepareIntegration(t, 2*time.Minute, 100*time.Millisecond)
	RunSpecs(t, "The link and the API server")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	api = testcluster.Connect().Clientset
	made, err := api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "swarm-link-"}},
		metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	namespace = made.Name
	DeferCleanup(func(ctx SpecContext) error {
		return api.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
	})
	_, err = api.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}},
		metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
})

// gatedPod is an object that no node ever runs: that is enough for a token. The gate keeps schedulers away.
func gatedPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		ServiceAccountName: account, SchedulingGates: []corev1.PodSchedulingGate{{Name: "swarm.io/never"}},
		Containers: []corev1.Container{{Name: "agent", Image: "example.test/agent"}},
	}}
}

func newPod(ctx SpecContext, name string) *corev1.Pod {
	GinkgoHelper()
	made, err := api.CoreV1().Pods(namespace).Create(ctx, gatedPod(name), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(removePod, name)
	return made
}

func removePod(ctx SpecContext, name string) {
	_ = api.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
}

// tokenFor is a token for an audience, bound to a pod unless that is nil.
func tokenFor(ctx SpecContext, audience string, pod *corev1.Pod) string {
	GinkgoHelper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience},
		ExpirationSeconds: new(int64(600))}}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	made, err := api.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return made.Status.Token
}
