package kit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
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
	r := &replica{pod: pod, probes: freeAddress(), metrics: freeAddress(), log: &journal{}, exited: make(chan error, 1)}
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.metrics+"/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
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

// A request is an entry of the audit log.
type request struct {
	Verb      string
	UserAgent string
	URI       string `json:"requestURI"`
	ObjectRef struct{ Resource, Subresource, Namespace, Name string }
	Response  struct{ Code int } `json:"responseStatus"`
	Received  time.Time          `json:"requestReceivedTimestamp"`
	Answered  time.Time          `json:"stageTimestamp"`
}

func (r request) String() string {
	return fmt.Sprintf("%s %s %s %s/%s: %d", r.Received.Format("15:04:05.000"), r.Verb, r.ObjectRef.Resource, r.ObjectRef.Namespace,
		r.ObjectRef.Name, r.Response.Code)
}

func (r request) writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb) && r.ObjectRef.Resource != "leases"
}

// auditRequests returns the requests since then with this user agent.
func auditRequests(userAgent string, since time.Time) []request {
	GinkgoHelper()
	file, err := os.Open(auditLog())
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	var result []request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), userAgent) {
			continue
		}
		var one request
		if json.Unmarshal(lines.Bytes(), &one) == nil && strings.HasPrefix(one.UserAgent, userAgent) && one.Received.After(since) {
			result = append(result, one)
		}
	}
	Expect(lines.Err()).NotTo(HaveOccurred())
	return result
}

// writes are the requests that change something, renewals of the Lease apart.
func writes(userAgent string, since time.Time) []request {
	return slices.DeleteFunc(auditRequests(userAgent, since), func(r request) bool { return !r.writes() })
}

func auditLog() string {
	GinkgoHelper()
	data := os.Getenv("DEVCLUSTER_DATA")
	file := filepath.Join(data, "logs/control-plane/audit-1.log")
	if _, err := os.Stat(file); data == "" || err != nil {
		Skip("no audit log: run in `bin/devcluster run --audit -- ...`")
	}
	return file
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
