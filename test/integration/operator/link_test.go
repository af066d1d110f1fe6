package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/certs"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

var _ = Describe("The link", Serial, func() {
	var ns string
	var leader *gexec.Session

	BeforeEach(func(ctx SpecContext) {
		ns = namespace(ctx, nil)
		leader = startOperator("SWARM_LINK_AGENT_LEASE=40s", "SWARM_CONTROLLER_RESYNC_PERIOD=1h") // what happens is caused by watches
		Eventually(leader.Err).Should(gbytes.Say("Successfully acquired lease"))
		sample(ctx, ns)
		Eventually(pods).WithContext(ctx).WithArguments(ns).Should(ContainElement(coder))
	})

	It("takes an agent that knows only what its pod was told", func(ctx SpecContext) {
		secret, err := authoritySecret(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(secret.Type).To(Equal(corev1.SecretTypeOpaque))
		Expect(publishedSwarmCA(ctx, ns)).To(Equal(string(secret.Data["ca.crt"])))
		Eventually(advertisedLease).WithContext(ctx).WithArguments(ns).Should(Equal(40 * time.Second))
		answer, err := hello(ctx, ns, linkDestination(ctx, ns))
		Expect(err).NotTo(HaveOccurred())
		Expect(answer.GetWelcome().GetTerm()).To(BeNumerically(">", 0))
	})

	It("has a new CA, and the same term, when the Secret is deleted, and publishes the CA", func(ctx SpecContext) {
		old, err := publishedSwarmCA(ctx, ns)
		Expect(err).NotTo(HaveOccurred())
		secret, err := authoritySecret(ctx)
		Expect(err).NotTo(HaveOccurred())
		term := secret.Annotations[v1alpha1.AnnotationTerm]
		Expect(term).NotTo(BeEmpty())
		Expect(api.Delete(ctx, secret)).To(Succeed())
		began := time.Now()
		Eventually(publishedSwarmCA).WithContext(ctx).WithArguments(ns).Should(And(Not(BeEmpty()), Not(Equal(old))))
		AddReportEntry("a new CA is in the swarm's ConfigMap after", ReportEntryVisibilityAlways,
			fmt.Sprintf("%.1f s", time.Since(began).Seconds()))
		Expect(expectWelcome(ctx, ns, linkDestination(ctx, ns))).To(Succeed())
		_, err = helloTrusting(ctx, ns, linkDestination(ctx, ns), old)
		Expect(err).To(MatchError(ContainSubstring("unknown authority")))
		made, err := authoritySecret(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationTerm, term))
	})

	It("is shown by a standby, which knows the agent and sends it to the leader", func(ctx SpecContext) {
		toLeader := linkDestination(ctx, ns)
		port := ports.Free()
		standby := startOperator("SWARM_LINK_PORT=" + port)
		Eventually(standby.Err).Should(gbytes.Say("caches synced"))
		toStandby := destination{address: net.JoinHostPort(toLeader.name, port), name: toLeader.name}
		Eventually(func(ctx context.Context) (string, error) {
			answer, err := hello(ctx, ns, toStandby)
			return answer.GetRedirect().GetAddress(), err
		}).WithContext(ctx).Should(Equal(toLeader.address))

		Eventually(leader.Terminate()).Should(gexec.Exit(0))
		Eventually(expectWelcome).WithContext(ctx).WithArguments(ns, toStandby).Should(Succeed())
	})
})

var _ = Describe("link.address", Serial, func() {
	It("is what pods are told, and what the certificate is for", func(ctx SpecContext) {
		ns := namespace(ctx, nil)
		startOperator("SWARM_LINK_ADDRESS=swarm.example.test:443")
		sample(ctx, ns)
		Eventually(pods).WithContext(ctx).WithArguments(ns).Should(ContainElement(coder))
		Expect(linkDestination(ctx, ns)).To(Equal(destination{"swarm.example.test:443", "swarm.example.test"}))
		Eventually(expectWelcome).WithContext(ctx).WithArguments(ns, destination{"127.0.0.1:" + linkPort, "swarm.example.test"}).Should(Succeed())
	})
})

// coder is an agent of the sample.
const coder = "research-coder-0"

func authoritySecret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, api.Get(ctx, client.ObjectKey{Namespace: system, Name: certs.SecretName}, secret)
}

// publishedSwarmCA is the CA in the swarm's ConfigMap.
func publishedSwarmCA(ctx context.Context, ns string) (string, error) {
	config := &corev1.ConfigMap{}
	err := api.Get(ctx, client.ObjectKey{Namespace: ns, Name: "research-config"}, config)
	return config.Data["ca.crt"], err
}

// A destination is an address and the name that the server there must prove.
type destination struct{ address, name string }

// linkDestination is where the swarm's pods dial.
func linkDestination(ctx context.Context, ns string) destination {
	GinkgoHelper()
	workload := &appsv1.StatefulSet{}
	Expect(api.Get(ctx, client.ObjectKey{Namespace: ns, Name: "research-coder"}, workload)).To(Succeed())
	for _, variable := range workload.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "SWARM_LINK_ADDRESS" {
			host, _, err := net.SplitHostPort(variable.Value)
			Expect(err).NotTo(HaveOccurred())
			return destination{variable.Value, host}
		}
	}
	Fail("pods are told no address")
	return destination{}
}

func expectWelcome(ctx context.Context, ns string, to destination) error {
	answer, err := hello(ctx, ns, to)
	if err == nil && answer.GetWelcome() == nil {
		return fmt.Errorf("answered with %v", answer)
	}
	return err
}

// hello is an agent that trusts the CA in its ConfigMap, and returns the operator's first answer.
func hello(ctx context.Context, ns string, to destination) (*linkv1.OperatorMessage, error) {
	trusted, err := publishedSwarmCA(ctx, ns)
	if err != nil {
		return nil, err
	}
	return helloTrusting(ctx, ns, to, trusted)
}

func helloTrusting(ctx context.Context, ns string, to destination, bundle string) (*linkv1.OperatorMessage, error) {
	token, err := requestProjectedToken(ctx, ns)
	if err != nil {
		return nil, err
	}
	return sendHello(ctx, credential{ns, token}, to, bundle)
}

// A credential is what an agent shows: the namespace that it claims, and the proof.
type credential struct{ namespace, token string }

func sendHello(ctx context.Context, cred credential, to destination, bundle string) (*linkv1.OperatorMessage, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle))
	secure := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: to.name})
	connection, err := grpc.NewClient("passthrough:///"+to.address, grpc.WithTransportCredentials(secure))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+cred.token), 10*time.Second)
	defer cancel()
	stream, err := linkv1.NewLinkClient(connection).Connect(ctx)
	if err != nil {
		return nil, err
	}
	said := &linkv1.Hello{Protocol: linkv1.Protocol, Namespace: cred.namespace, Swarm: "research", Agent: coder, Slots: 1}
	_ = stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Hello{Hello: said}}) // Recv returns the error
	return stream.Recv()
}

// requestProjectedToken is a token as the kubelet would put it into the agent's pod.
func requestProjectedToken(ctx context.Context, ns string) (string, error) {
	pod := &corev1.Pod{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: ns, Name: coder}, pod); err != nil {
		return "", err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{link.Audience}, ExpirationSeconds: new(int64(600)),
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}}
	err := api.SubResource("token").Create(ctx, account, request)
	return request.Status.Token, err
}
