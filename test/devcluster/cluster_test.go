package devcluster

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// A cluster is one data folder and the cluster that the program creates in it.
type cluster struct{ data string }

// newCluster returns a cluster that does not exist yet. It is removed when the spec ends.
func newCluster(name string) cluster {
	GinkgoHelper()
	c := cluster{data: filepath.Join(testFolder, name)}
	Expect(os.MkdirAll(c.temporary(), 0o755)).To(Succeed())
	DeferCleanup(func() {
		session := start(c.command("down"))
		Eventually(session).WithTimeout(timeout).Should(gexec.Exit())
		Expect(os.RemoveAll(c.temporary())).To(Succeed())
	})
	return c
}

// temporary is the folder for temporary files of the cluster's programs, which they should remove.
func (c cluster) temporary() string { return c.data + ".tmp" }

// command returns a call of the program for this cluster. The environment also names the folder, so that all child processes can be
// identified by it.
func (c cluster) command(arguments ...string) *exec.Cmd {
	command := exec.Command(devclusterProgram, arguments...)
	command.Env = append(os.Environ(), "DEVCLUSTER_DATA="+c.data, "TMPDIR="+c.temporary(), "KUBECONFIG=")
	return command
}

// commandByFlag returns a call of the program that names the folder only by the flag.
func (c cluster) commandByFlag(arguments ...string) *exec.Cmd {
	return c.command(append(arguments, "--data", c.data)...)
}

func (c cluster) up(flags ...string) {
	GinkgoHelper()
	runSuccessfully(c.commandByFlag(append([]string{"up"}, flags...)...))
}

func (c cluster) down() {
	GinkgoHelper()
	runSuccessfully(c.commandByFlag("down"))
}

func (c cluster) kubectl(arguments ...string) {
	GinkgoHelper()
	runSuccessfully(c.command(append([]string{"kubectl"}, arguments...)...))
}

// client returns a client for the kubeconfig that the program prints. It has a short timeout, since some specs wait for it.
func (c cluster) client(inContext string) *kubernetes.Clientset {
	GinkgoHelper()
	parsed, err := clientcmd.Load(output(c.commandByFlag("kubeconfig")))
	Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.NewNonInteractiveClientConfig(*parsed, inContext, nil, nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	config.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

// first and second are the contexts of the two API servers.
const first, second = "devcluster", "devcluster-2"

// status returns the program's machine-readable output.
type status struct {
	Data       string
	Server     string
	Nodes      string
	Healthy    bool
	Components []component
}

type component struct {
	Name  string
	State string
	PID   int
}

func (c cluster) status() status {
	GinkgoHelper()
	var told status
	text, _ := c.commandByFlag("status", "-o", "json").Output() // it fails when a component does
	Expect(json.Unmarshal(text, &told)).To(Succeed())
	return told
}

func (c cluster) component(name string) component {
	GinkgoHelper()
	all := c.status().Components
	at := slices.IndexFunc(all, func(one component) bool { return one.Name == name })
	Expect(at).To(BeNumerically(">=", 0), "component %s", name)
	return all[at]
}

// checkEtcd reads something that only etcd knows.
func checkEtcd(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	return err
}

func readyNodes(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, node := range nodes.Items {
		if slices.ContainsFunc(node.Status.Conditions, isReadyCondition) {
			names = append(names, node.Name)
		}
	}
	return names, nil
}

func isReadyCondition(condition corev1.NodeCondition) bool {
	return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
}
