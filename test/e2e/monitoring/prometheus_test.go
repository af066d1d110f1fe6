package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// credentials is where a pod finds the credentials of its service account.
const credentials = "/var/run/secrets/kubernetes.io/serviceaccount/"

// A prometheus is a Prometheus that runs on this machine.
type prometheus struct {
	address string
	session *gexec.Session
}

// startPrometheus runs the program as the kubelet would for a service account, with its own root folder in place of a container, until the
// specs that need it are over.
func startPrometheus(ctx context.Context, name string) prometheus {
	GinkgoHelper()
	spec := awaitContainerSpec(ctx)
	spec.files[credentials+"token"] = token(ctx, name)
	spec.files[credentials+"ca.crt"] = clusterCA(ctx)
	spec.files["/prometheus/"] = nil
	address := "127.0.0.1:" + ports.Free()
	command := exec.Command("/bin/prometheus", append(spec.arguments, "--web.listen-address="+address)...)
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: rooted(spec.files)}
	command.Dir, command.Env = "/", environment()
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Eventually(session.Terminate()).WithContext(ctx).Should(gexec.Exit(0)) })
	return prometheus{address, session}
}

// environment is the part of a pod's environment with the address of the API server.
func environment() []string {
	GinkgoHelper()
	server, err := url.Parse(webhook.Config.Host)
	Expect(err).NotTo(HaveOccurred())
	return []string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}
}

// token is one of a service account of Prometheus' namespace.
func token(ctx context.Context, name string) []byte {
	GinkgoHelper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: monitoringNamespace, Name: name}}
	Expect(webhook.API.SubResource("token").Create(ctx, of, request)).To(Succeed())
	return []byte(request.Status.Token)
}

// clusterCA is the CA that pods of Prometheus' namespace trust at the API server.
func clusterCA(ctx context.Context) []byte {
	GinkgoHelper()
	roots := &corev1.ConfigMap{}
	Eventually(webhook.API.Get).WithContext(ctx).WithArguments(client.ObjectKey{Namespace: monitoringNamespace, Name: "kube-root-ca.crt"},
		roots).Should(Succeed())
	return []byte(roots.Data["ca.crt"])
}

// rooted is a folder with the program and these files. It is beside the program, which so needs no copy.
func rooted(files map[string][]byte) string {
	GinkgoHelper()
	root, err := os.MkdirTemp(testcluster.FromRoot("bin"), "prometheus-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, root)
	for path, text := range files {
		Expect(os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o700)).To(Succeed())
		if text != nil {
			Expect(os.WriteFile(filepath.Join(root, path), text, 0o600)).To(Succeed())
		}
	}
	Expect(os.MkdirAll(filepath.Join(root, "bin"), 0o700)).To(Succeed())
	Expect(os.Link(testcluster.FromRoot("bin", "prometheus"), filepath.Join(root, "bin", "prometheus"))).To(Succeed())
	return root
}

// A target is what Prometheus scrapes, or tries to.
type target struct {
	Labels            map[string]string
	Health, LastError string
}

// targets are the targets in a namespace.
func (p prometheus) targets(ctx context.Context, namespace string) (targets []target, err error) {
	var answer struct{ ActiveTargets []target }
	err = p.get(ctx, "targets", nil, &answer)
	for _, some := range answer.ActiveTargets {
		if some.Labels["namespace"] == namespace {
			targets = append(targets, some)
		}
	}
	return targets, err
}

// An alert is a loaded alert of Prometheus, with its active instances.
type alert struct {
	Name, State, Health, LastError string
	Alerts                         []struct{ Annotations map[string]string }
}

func (p prometheus) alerts(ctx context.Context) (alerts []alert, err error) {
	var answer struct{ Groups []struct{ Rules []alert } }
	err = p.get(ctx, "rules", nil, &answer)
	for _, group := range answer.Groups {
		alerts = append(alerts, group.Rules...)
	}
	return alerts, err
}

// alert is the one with a name.
func (p prometheus) alert(ctx context.Context, name string) (alert, error) {
	all, err := p.alerts(ctx)
	for _, some := range all {
		if some.Name == name {
			return some, err
		}
	}
	return alert{}, err
}

// number is what an expression comes to now, 0 without a result.
func (p prometheus) number(ctx context.Context, expression string) (float64, error) {
	var answer struct{ Result []struct{ Value [2]any } }
	if err := p.get(ctx, "query", url.Values{"query": {expression}}, &answer); err != nil || len(answer.Result) == 0 {
		return 0, err
	}
	return strconv.ParseFloat(answer.Result[0].Value[1].(string), 64)
}

// get sends a request to the HTTP API.
func (p prometheus) get(ctx context.Context, path string, parameters url.Values, into any) error {
	where := url.URL{Scheme: "http", Host: p.address, Path: "/api/v1/" + path, RawQuery: parameters.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask Prometheus for %s: %s: %s", path, response.Status, text)
	}
	return json.Unmarshal(text, &struct{ Data any }{into})
}
