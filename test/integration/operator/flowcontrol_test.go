package operator

import (
	"context"
	"net/http"
	"os/exec"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/apiproxy"
)

// A flow is how the API server has classified a request.
type flow struct{ schema, level string }

// flows are the flows of an operator's requests.
type flows struct {
	lock    sync.Mutex
	entries []classifiedRequest
}

type classifiedRequest struct {
	method, path string
	flow         flow
}

// record implements the hook of a proxy.
func (f *flows) record(response *http.Response) error {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.entries = append(f.entries, classifiedRequest{response.Request.Method, response.Request.URL.Path, flow{
		schema: response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID),
		level:  response.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID),
	}})
	return nil
}

// last returns the flow of the last request with this method, to a path with this part.
func (f *flows) last(method, part string) (last flow) {
	f.lock.Lock()
	defer f.lock.Unlock()
	for _, one := range f.entries {
		if one.method == method && strings.Contains(one.path, part) {
			last = one.flow
		}
	}
	return last
}

var _ = Describe("The flow control that is installed", Serial, func() {
	It("puts Leases of the operator into the level of leader elections, and everything else into one of its own", func(ctx SpecContext) {
		installAccount(ctx)
		applyManifests(ctx, "flowcontrol")
		leases := expectedFlow(ctx, "swarm-operator-leases", "leader-election")
		rest := expectedFlow(ctx, "swarm-operator", "swarm-operator")

		ns, seen := namespace(ctx, nil), &flows{}
		startOperator(onlyNamespace(ns), asAccount(ctx, seen))
		swarm := sample(ctx, ns)
		Eventually(condition).WithContext(ctx).WithArguments(swarm).Should(ContainSubstring("6 have a ready pod"))
		// The API server receives new FlowSchemas by a watch.
		Eventually(seen.last).WithArguments(http.MethodPut, "/namespaces/swarm-system/leases/swarm-operator").Should(Equal(leases))
		change(ctx, swarm, func() { swarm.Spec.Replicas = new(int32(5)) })
		Eventually(seen.last).WithArguments(http.MethodPatch, "/swarms/research/status").Should(Equal(rest))
		Eventually(condition).WithContext(ctx).WithArguments(swarm).Should(ContainSubstring("5 have a ready pod"))
		Expect(seen.last(http.MethodPut, "/leases/")).To(Equal(leases))
	})
})

// installAccount makes the service account of an installed operator, with its rights, until the spec ends.
func installAccount(ctx context.Context) {
	GinkgoHelper()
	for _, path := range [][]string{{"workload", "account.yaml"}, {"operator", "role.yaml"}, {"operator", "bindings.yaml"}} {
		file := fromRoot(append([]string{"deploy", "kustomize"}, path...)...)
		kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--namespace", system, "--filename", file)
		DeferCleanup(kubectl, "delete", "--ignore-not-found", "--namespace", system, "--filename", file)
	}
}

// applyManifests applies a folder of deploy/kustomize, until the spec ends.
func applyManifests(ctx context.Context, folder ...string) {
	GinkgoHelper()
	path := fromRoot(append([]string{"deploy", "kustomize"}, folder...)...)
	kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--kustomize", path)
	DeferCleanup(kubectl, "delete", "--ignore-not-found", "--kustomize", path)
}

func kubectl(ctx context.Context, arguments ...string) {
	GinkgoHelper()
	output, err := exec.CommandContext(ctx, "kubectl", arguments...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
}

// asAccount has an operator reach the API server as its service account, through a proxy that notes the flows of its requests.
func asAccount(ctx context.Context, recorder *flows) string {
	GinkgoHelper()
	own := rest.AnonymousClientConfig(clusterConfig)
	own.BearerToken = tenant{namespace: system}.requestToken(ctx, "swarm-operator")
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	DeferCleanup(cancel)
	address, err := apiproxy.Start(ctx, own, apiproxy.Options{Response: recorder.record})
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := apiproxy.Kubeconfig(GinkgoT().TempDir(), address)
	Expect(err).NotTo(HaveOccurred())
	return "KUBECONFIG=" + kubeconfig
}

// expectedFlow is that of requests that match a FlowSchema, which must have this priority level.
func expectedFlow(ctx context.Context, schema, level string) flow {
	GinkgoHelper()
	return flow{
		schema: uidOf(ctx, &flowcontrolv1.FlowSchema{}, schema),
		level:  uidOf(ctx, &flowcontrolv1.PriorityLevelConfiguration{}, level),
	}
}

func uidOf(ctx context.Context, object client.Object, name string) string {
	GinkgoHelper()
	Expect(api.Get(ctx, client.ObjectKey{Name: name}, object)).To(Succeed())
	return string(object.GetUID())
}
