package namespaced

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os/exec"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// crewAgent is the agent of the swarm crew.
const crewAgent = "crew-worker-0"

// A link is the address of a tenant's operator, as seen from this machine.
type link struct {
	address, name string
	authority     *x509.CertPool
}

var local = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// link connects to any replica: one that does not lead authenticates agents as well, and redirects them.
func (t tenant) link(ctx context.Context) link {
	GinkgoHelper()
	session, err := gexec.Start(exec.Command("kubectl", "port-forward", "--as", t.user(), "--namespace", t.namespace,
		"service/swarm-operator-link", ":9444"), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait() })
	Eventually(session.Out).WithTimeout(20 * time.Second).Should(gbytes.Say(local.String()))
	config := &corev1.ConfigMap{}
	Expect(api.Get(ctx, client.ObjectKey{Namespace: t.namespace, Name: "crew-config"}, config)).To(Succeed())
	made := link{string(local.FindSubmatch(session.Out.Contents())[1]), "swarm-operator-link." + t.namespace + ".svc", x509.NewCertPool()}
	Expect(made.authority.AppendCertsFromPEM([]byte(config.Data["ca.crt"]))).To(BeTrue())
	return made
}

// sayHello sends Hello with the token of the agent in a namespace, and returns why it was refused.
func (l link) sayHello(ctx context.Context, ns string) error {
	GinkgoHelper()
	secure := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: l.authority, ServerName: l.name})
	connection, err := grpc.NewClient("passthrough:///"+l.address, grpc.WithTransportCredentials(secure))
	Expect(err).NotTo(HaveOccurred())
	defer connection.Close()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token(ctx, ns)), 10*time.Second)
	defer cancel()
	stream, err := linkv1.NewLinkClient(connection).Connect(ctx)
	if err != nil {
		return err
	}
	hello := &linkv1.Hello{Protocol: linkv1.Protocol, Namespace: ns, Swarm: "crew", Agent: crewAgent, Slots: 1}
	_ = stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Hello{Hello: hello}}) // Recv returns the error
	answer, err := stream.Recv()
	if err == nil && answer.GetWelcome() == nil && answer.GetRedirect() == nil {
		return fmt.Errorf("answered with %v", answer)
	}
	return err
}

// token returns a token like the one that the kubelet mounts into the agent's pod.
func token(ctx context.Context, ns string) string {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(api.Get(ctx, client.ObjectKey{Namespace: ns, Name: crewAgent}, pod)).To(Succeed())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{"swarm.io"}, ExpirationSeconds: new(int64(600)),
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}}
	Expect(api.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}
