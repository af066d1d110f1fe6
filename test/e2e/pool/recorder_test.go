package pool

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/yaml"
)

// A recorder is everything that has happened in a namespace to pods, ConfigMaps and StatefulSets. The API server numbers changes
// over all objects, so that the order of two changes is known, however late they were observed.
type recorder struct {
	stop context.CancelFunc

	lock           sync.Mutex
	created        map[string]uint64 // pods, by UID
	deleted        map[string]uint64
	configVersions []configVersion
	scales         []scale
}

// A configVersion is a config that was published.
type configVersion struct {
	file
	name   string
	number uint64
	at     time.Time // when it was observed
}

// A scale is a number of replicas that a StatefulSet was given.
type scale struct {
	name     string
	replicas int32
	number   uint64
	at       time.Time
}

// file is what workers mount.
type file struct {
	Version   int64               `json:"version"`
	Workloads map[string]workload `json:"workloads"`
	text      string
}

type workload struct {
	Jobs    []string `json:"jobs"`
	Version int64    `json:"version"`
}

func parseConfig(config *corev1.ConfigMap) file {
	read := file{text: config.Data["config.yml"]}
	if err := yaml.UnmarshalStrict([]byte(read.text), &read); err != nil {
		return file{text: read.text}
	}
	return read
}

// owners returns which worker has which job.
func (f file) owners() map[string]string {
	owners := map[string]string{}
	for worker, work := range f.Workloads {
		for _, job := range work.Jobs {
			owners[job] = worker
		}
	}
	return owners
}

// record begins a record, which goes on when the API server was away.
func record(ctx context.Context, namespace string) *recorder {
	GinkgoHelper()
	recording, stop := context.WithCancel(context.Background())
	r := &recorder{stop: stop, created: map[string]uint64{}, deleted: map[string]uint64{}}
	podList, err := core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, source := range []source{
		core.CoreV1().Pods(namespace).Watch, core.CoreV1().ConfigMaps(namespace).Watch, core.AppsV1().StatefulSets(namespace).Watch,
	} {
		watcher, err := watchtools.NewRetryWatcherWithContext(recording, podList.ResourceVersion, source)
		Expect(err).NotTo(HaveOccurred())
		go r.handleEvents(watcher)
	}
	return r
}

// source is the watch of one kind of object.
type source func(context.Context, metav1.ListOptions) (watch.Interface, error)

// WatchWithContext is for the watch that begins again when it was cut off. It would not after a refusal, and an API server that
// has just started refuses every request.
func (s source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	begun, err := s(ctx, options)
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		err = errors.New("watch: " + err.Error())
	}
	return begun, err
}

func (c *recorder) handleEvents(watcher watch.Interface) {
	for event := range watcher.ResultChan() {
		c.recordEvent(event)
	}
}

func (c *recorder) recordEvent(event watch.Event) {
	c.lock.Lock()
	defer c.lock.Unlock()
	switch object := event.Object.(type) {
	case *corev1.Pod:
		switch event.Type {
		case watch.Added:
			c.created[string(object.UID)] = number(object)
		case watch.Deleted:
			c.deleted[string(object.UID)] = number(object)
		}
	case *corev1.ConfigMap:
		if event.Type != watch.Deleted {
			c.configVersions = append(c.configVersions, configVersion{parseConfig(object), object.Name, number(object), time.Now()})
		}
	case *appsv1.StatefulSet:
		c.scales = append(c.scales, scale{object.Name, *object.Spec.Replicas, number(object), time.Now()})
	}
}

func number(object metav1.Object) uint64 {
	parsed, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	return parsed
}

// versionsOf are the editions of a config so far, each version once.
func (c *recorder) versionsOf(config string) []configVersion {
	c.lock.Lock()
	defer c.lock.Unlock()
	var versions []configVersion
	for _, edition := range c.configVersions {
		if edition.name == config && (len(versions) == 0 || versions[len(versions)-1].text != edition.text) {
			versions = append(versions, edition)
		}
	}
	return versions
}

// scaled are the numbers of replicas that a StatefulSet has had.
func (c *recorder) scaled(workload string) []scale {
	c.lock.Lock()
	defer c.lock.Unlock()
	var scales []scale
	for _, scale := range c.scales {
		if scale.name == workload && (len(scales) == 0 || scales[len(scales)-1].replicas != scale.replicas) {
			scales = append(scales, scale)
		}
	}
	return scales
}

// deletedAt returns when a pod was deleted.
func (c *recorder) deletedAt(uid string) (uint64, bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	number, gone := c.deleted[uid]
	return number, gone
}

// grantedAt is the number of what let a pod begin with a version of its list: that it was made, or that the version was published.
func (c *recorder) grantedAt(holder journalEntry, version int64) uint64 {
	c.lock.Lock()
	defer c.lock.Unlock()
	granted := c.created[holder.PodUID]
	for _, edition := range c.configVersions {
		if edition.Workloads[holder.Worker].Version == version {
			return max(granted, edition.number)
		}
	}
	return granted
}
