package spread

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// audit is a moment in the audit log.
type audit struct {
	at   time.Time
	file os.FileInfo // as it was
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

func now() audit {
	GinkgoHelper()
	info, err := os.Stat(auditLog())
	Expect(err).NotTo(HaveOccurred())
	return audit{time.Now(), info}
}

// lines are those of the log since then. It may have been given another name in the meantime, and another may have been begun.
func (a audit) lines(each func(line []byte)) {
	GinkgoHelper()
	names, err := filepath.Glob(strings.TrimSuffix(auditLog(), ".log") + "*.log")
	Expect(err).NotTo(HaveOccurred())
	for _, name := range names {
		file, err := os.Open(name)
		Expect(err).NotTo(HaveOccurred())
		defer file.Close()
		info, err := file.Stat()
		Expect(err).NotTo(HaveOccurred())
		if info.ModTime().Before(a.at) {
			continue
		}
		if os.SameFile(info, a.file) {
			_, err = file.Seek(a.file.Size(), io.SeekStart)
			Expect(err).NotTo(HaveOccurred())
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			each(lines.Bytes())
		}
		Expect(lines.Err()).NotTo(HaveOccurred())
	}
}

// A request is what the audit log says of one.
type request struct {
	Verb, UserAgent string
	ObjectRef       struct{ Resource, Subresource, Namespace, Name string }
	Response        struct{ Code int } `json:"responseStatus"`
	Received        time.Time          `json:"requestReceivedTimestamp"`
}

func (r request) String() string {
	what := strings.Trim(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")
	return fmt.Sprintf("%s %s %s %s: %d", r.Received.Format("15:04:05.000"), r.Verb, what, r.ObjectRef.Name, r.Response.Code)
}

// takes tells whether a request has taken a pod away.
func (r request) takes() bool {
	of := r.ObjectRef
	return of.Resource == "pods" && (r.Verb == "create" && of.Subresource == "eviction" || r.Verb == "delete")
}

// requests are the operator's since then.
func (a audit) requests() []request {
	GinkgoHelper()
	var found []request
	a.lines(func(line []byte) {
		var one request
		if bytes.Contains(line, []byte("swarm-operator/")) && json.Unmarshal(line, &one) == nil && strings.HasPrefix(one.UserAgent, "swarm-operator/") && one.Received.After(a.at) {
			found = append(found, one)
		}
	})
	slices.SortFunc(found, func(a, b request) int { return a.Received.Compare(b.Received) })
	return found
}

// requests are what the operator has asked for in the namespace.
func (s *scene) requests() []request {
	GinkgoHelper()
	return slices.DeleteFunc(s.since.requests(), func(r request) bool { return r.ObjectRef.Namespace != s.in })
}

// moves are the pods that the operator has taken away, in order.
func (s *scene) moves() []request {
	GinkgoHelper()
	return slices.DeleteFunc(s.requests(), func(r request) bool { return !r.takes() || r.Response.Code >= 300 })
}

// verbs are the ways in which pods were taken away, each once.
func verbs(moves []request) []string {
	found := map[string]bool{}
	for _, move := range moves {
		found[move.Verb] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// taken are the names of the pods that were taken away, in order.
func taken(moves []request) []string {
	names := make([]string, 0, len(moves))
	for _, move := range moves {
		names = append(names, move.ObjectRef.Name)
	}
	return names
}

// A chronicle is what a watch has seen of the pods of a workload.
type chronicle struct {
	lock      sync.Mutex
	pods      map[types.UID]corev1.Pod
	low, high int // of pods that were available, and of pods that were there
}

// watched records a workload's pods from now on, until the spec ends.
func (w workload) watched(ctx context.Context) *chronicle {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(api.List(ctx, list, client.InNamespace(w.in), client.MatchingLabels{"app": w.GetName()})).To(Succeed())
	c := &chronicle{pods: map[types.UID]corev1.Pod{}}
	for _, pod := range list.Items {
		c.pods[pod.UID] = pod
	}
	c.low, c.high = c.counts()
	ctx, leave := context.WithCancel(context.WithoutCancel(ctx))
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	seen, err := api.Watch(ctx, &corev1.PodList{}, from, client.InNamespace(w.in), client.MatchingLabels{"app": w.GetName()})
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range seen.ResultChan() {
			c.take(event)
		}
	}()
	DeferCleanup(func() {
		leave()
		<-done
	})
	return c
}

func (c *chronicle) take(event watch.Event) {
	pod, is := event.Object.(*corev1.Pod)
	if !is {
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.pods[pod.UID] = *pod
	if event.Type == watch.Deleted {
		delete(c.pods, pod.UID)
	}
	serving, all := c.counts()
	c.low, c.high = min(c.low, serving), max(c.high, all)
}

func (c *chronicle) counts() (serving, all int) {
	for _, pod := range c.pods {
		if available(pod) {
			serving++
		}
		if pod.DeletionTimestamp == nil {
			all++
		}
	}
	return serving, all
}

// lowest is the fewest pods that were available at any time.
func (c *chronicle) lowest() int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.low
}

// highest is the most pods that were there at any time.
func (c *chronicle) highest() int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.high
}
