package kit_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
	"github.com/swarm-io/swarm-operator/internal/testkit/audit"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// A replica is one process of the program.
type replica struct {
	pod     string
	probes  string
	metrics string
	log     *journal
	process *os.Process
	exited  chan error
}

// run starts the program as a pod of that name, with its Lease in the namespace. Environment entries contain a "=".
func run(namespace, pod string, arguments ...string) *replica {
	GinkgoHelper()
	r := &replica{pod: pod, probes: freeAddress(), metrics: freeAddress(), log: newJournal(), exited: make(chan error, 1)}
	command := exec.Command(program, "--lease-namespace="+namespace, "--health-address="+r.probes, "--metrics-address="+r.metrics,
		"--resync=1s")
	command.Env = append(os.Environ(), "POD_NAME="+pod)
	for _, argument := range arguments {
		if strings.HasPrefix(argument, "--") {
			command.Args = append(command.Args, argument)
		} else {
			command.Env = append(command.Env, argument)
		}
	}
	command.Stdout, command.Stderr = r.log, r.log
	Expect(command.Start()).To(Succeed())
	r.process = command.Process
	go func() {
		r.exited <- command.Wait()
		close(r.exited)
	}()
	DeferCleanup(func() {
		r.signal(syscall.SIGKILL)
		Eventually(r.exited).Should(BeClosed())
		if CurrentSpecReport().Failed() {
			AddReportEntry("log of "+pod, r.log.String())
		}
	})
	return r
}

func (r *replica) signal(signal syscall.Signal) { _ = r.process.Signal(signal) }

// scrape returns the metrics.
func (r *replica) scrape(ctx context.Context) (string, error) {
	_, text, err := testcluster.HTTPGet(ctx, "http://"+r.metrics+"/metrics")
	return text, err
}

// getStatus returns the status code of one of its addresses, 0 without a response.
func getStatus(address, path string) func() int {
	return func() int {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			return 0
		}
		defer response.Body.Close()
		return response.StatusCode
	}
}

func freeAddress() string { return net.JoinHostPort("127.0.0.1", ports.Free()) }

// holder returns the pod that the Lease names, "" while the Lease has no holder.
func holder(ctx context.Context, namespace string) func() string {
	return func() string {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "webapp"}}
		if api.Get(ctx, client.ObjectKeyFromObject(lease), lease) != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		return pod
	}
}

// auditRequests returns the requests since then with this user agent.
func auditRequests(userAgent string, since time.Time) []audit.Request {
	GinkgoHelper()
	requests, err := audit.Read(testcluster.AuditLog(), audit.Filter{UserAgent: userAgent, Since: since})
	Expect(err).NotTo(HaveOccurred())
	return requests
}

// writes are the requests that change something, renewals of the Lease apart.
func writes(userAgent string, since time.Time) []audit.Request {
	return slices.DeleteFunc(auditRequests(userAgent, since), func(r audit.Request) bool { return !r.IsWrite() })
}

// busy changes WebApps all the time, so that a leader always has something to write, until the spec ends.
func busy(ctx context.Context, namespace string) {
	var apps []*v1.WebApp
	for i := range 4 {
		apps = append(apps, webApp(ctx, namespace, fmt.Sprint("busy-", i)))
	}
	workCtx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-workCtx.Done():
				return
			case <-ticker.C:
				app := apps[i%len(apps)]
				patch := fmt.Sprintf(`{"spec":{"port":%d}}`, 1000+i%1000)
				_ = api.Patch(workCtx, app, client.RawPatch("application/merge-patch+json", []byte(patch)))
			}
		}
	}()
	DeferCleanup(func() { stop(); <-done })
}

// kubeconfigAs writes a kubeconfig for another user, and returns its path.
func kubeconfigAs(user string) string {
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	Expect(err).NotTo(HaveOccurred())
	for _, info := range config.AuthInfos {
		info.Impersonate = user
	}
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
	return file
}
