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

// A chronicle is everything that has happened in a namespace to pods, ConfigMaps and StatefulSets. The API server numbers changes
// over all objects, so that the order of two changes is known, however late they were observed.
type chronicle struct {
	stop context.CancelFunc

	lock     sync.Mutex
	created  map[string]uint64 // pods, by UID
	deleted  map[string]uint64
	editions []edition
	scales   []scale
}

// An edition is a config that was published.
type edition struct {
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
	Version   int64             `json:"version"`
	Workloads map[string]workOf `json:"workloads"`
	text      string
}

type workOf struct {
	Jobs    []string `json:"jobs"`
	Version int64    `json:"version"`
}

func parsed(config *corev1.ConfigMap) file {
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

// record begins a chronicle, which goes on when the API server was away.
func record(ctx context.Context, namespace string) *chronicle {
	GinkgoHelper()
	going, stop := context.WithCancel(context.Background())
	made := &chronicle{stop: stop, created: map[string]uint64{}, deleted: map[string]uint64{}}
	now, err := core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, source := range []source{
		core.CoreV1().Pods(namespace).Watch, core.CoreV1().ConfigMaps(namespace).Watch, core.AppsV1().StatefulSets(namespace).Watch,
	} {
		watcher, err := watchtools.NewRetryWatcherWithContext(going, now.ResourceVersion, source)
		Expect(err).NotTo(HaveOccurred())
		go made.follow(watcher)
	}
	return made
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

func (c *chronicle) follow(watcher watch.Interface) {
	for event := range watcher.ResultChan() {
		c.note(event)
	}
}

func (c *chronicle) note(event watch.Event) {
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
			c.editions = append(c.editions, edition{parsed(object), object.Name, number(object), time.Now()})
		}
	case *appsv1.StatefulSet:
		c.scales = append(c.scales, scale{object.Name, *object.Spec.Replicas, number(object), time.Now()})
	}
}

func number(object metav1.Object) uint64 {
	parsed, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	return parsed
}

// published are the editions of a config so far, each version once.
func (c *chronicle) published(config string) []edition {
	c.lock.Lock()
	defer c.lock.Unlock()
	var all []edition
	for _, edition := range c.editions {
		if edition.name == config && (len(all) == 0 || all[len(all)-1].text != edition.text) {
			all = append(all, edition)
		}
	}
	return all
}

// scaled are the numbers of replicas that a StatefulSet has had.
func (c *chronicle) scaled(of string) []scale {
	c.lock.Lock()
	defer c.lock.Unlock()
	var all []scale
	for _, scale := range c.scales {
		if scale.name == of && (len(all) == 0 || all[len(all)-1].replicas != scale.replicas) {
			all = append(all, scale)
		}
	}
	return all
}

// gone returns when a pod was deleted.
func (c *chronicle) gone(uid string) (uint64, bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	number, gone := c.deleted[uid]
	return number, gone
}

// granted is the number of what let a pod begin with a version of its list: that it was made, or that the version was published.
func (c *chronicle) granted(to line, version int64) uint64 {
	c.lock.Lock()
	defer c.lock.Unlock()
	granted := c.created[to.PodUID]
	for _, edition := range c.editions {
		if edition.Workloads[to.Worker].Version == version {
			return max(granted, edition.number)
		}
	}
	return granted
}
