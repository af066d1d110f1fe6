package testcluster

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// PrepareIntegration is how integration suites begin: they need a cluster, and poll for what they expect until the timeout.
func PrepareIntegration(t *testing.T, timeout, interval time.Duration) {
	t.Helper()
	Require(t, "make integration")
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(timeout)
	SetDefaultEventuallyPollingInterval(interval)
}

// NewNamespace creates a namespace with these labels, and deletes it when the spec ends. Unlike Cluster.CreateNamespace it accepts all
// pods, and does not wait for the service account.
func NewNamespace(ctx context.Context, api client.Client, prefix string, labels map[string]string) string {
	GinkgoHelper()
	namespace := KeptNamespace(ctx, api, prefix, labels)
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(api.Delete(ctx, namespace))).To(Succeed()) })
	return namespace.Name
}

// KeptNamespace creates such a namespace, which the suite deletes itself.
func KeptNamespace(ctx context.Context, api client.Client, prefix string, labels map[string]string) *corev1.Namespace {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix, Labels: labels}}
	Expect(api.Create(ctx, namespace)).To(Succeed())
	return namespace
}

// StartOperator starts the operator as a process of this machine, with a namespace of its own and these variables besides those of the
// suite. It gets free ports, because suites share the machine. The caller has to stop it.
func StartOperator(namespace string, environment ...string) *gexec.Session {
	GinkgoHelper()
	return StartProgram(FromRoot("bin", "swarm-operator"), namespace, environment...)
}

// StartProgram starts another build of the operator.
func StartProgram(program, namespace string, environment ...string) *gexec.Session {
	GinkgoHelper()
	command := exec.Command(program, "--namespace", namespace)
	command.Env = append(os.Environ(), "SWARM_HEALTH_PORT="+ports.Free(), "SWARM_LINK_PORT="+ports.Free(), "SWARM_API_PORT="+ports.Free())
	command.Env = append(command.Env, environment...)
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred(), "run `make build` first, or `make build race-operator` for a program in bin/race")
	return session
}

// OnlyLabelled has an operator work in namespaces with this label.
func OnlyLabelled(label string) string {
	return "SWARM_CONTROLLER_NAMESPACE_SELECTOR={matchLabels: {" + label + `: "true"}}`
}

// Update reads an object, changes it and writes it, again on conflicts.
func Update[T client.Object](ctx context.Context, api client.Client, object T, change func(T)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return api.Update(ctx, object)
	}).Should(Succeed())
}

// NewToken creates a service account and returns a token for it.
func NewToken(ctx context.Context, api client.Client, namespace, name string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	Expect(api.Create(ctx, account)).To(Succeed())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(600))}}
	Expect(api.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// Log returns a log that is shown when the spec fails.
func Log(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(GinkgoWriter, &slog.HandlerOptions{Level: level}))
}

// AuditLog returns the audit log of our own cluster. It skips the spec when there is none.
func AuditLog() string {
	GinkgoHelper()
	data := os.Getenv("DEVCLUSTER_DATA")
	file := filepath.Join(data, "logs/control-plane/audit-1.log")
	if _, err := os.Stat(file); data == "" || err != nil {
		Skip("no audit log: run in `bin/devcluster run --audit -- ...`")
	}
	return file
}
