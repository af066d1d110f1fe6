package ack

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

var pool = types.NamespacedName{Namespace: "n", Name: "p"}

// triggerChan rings when there is a new answer.
type triggerChan chan types.NamespacedName

func (b triggerChan) After(name types.NamespacedName, _ time.Duration) {
	select {
	case b <- name:
	default:
	}
}

func newTriggerChan() triggerChan { return make(triggerChan, 1024) }

// pollUntil repeats the questions whenever the bell rings, until the answers are as wanted.
func pollUntil(t *testing.T, asker *Poller, triggers triggerChan, targets []plan.AckTarget, accept func(map[string]plan.AckResponse) bool) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		if responses, _ := asker.Poll(pool, targets); accept(responses) {
			return
		}
		select {
		case <-triggers:
		case <-timeout:
			responses, allPolled := asker.Poll(pool, targets)
			t.Fatalf("the answers stay %v (tried: %t)", responses, allPolled)
		}
	}
}

// newWorkerServer answers with a variable version.
func newWorkerServer(t *testing.T, name, uid string, version *atomic.Int64) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		fmt.Fprintf(response, `{"worker": %q, "podUID": %q, "version": %d, "config": %d}`, name, uid, version.Load(), version.Load())
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func TestPollsUntilTheResponseMatches(t *testing.T) {
	triggers := newTriggerChan()
	poller := New(triggers)
	version := &atomic.Int64{}
	version.Store(1)
	url, requests := newWorkerServer(t, "w", "u", version)
	targets := []plan.AckTarget{{Worker: "w", URL: url, PodUID: "u", Version: 2}}
	pollUntil(t, poller, triggers, targets, func(responses map[string]plan.AckResponse) bool { return responses["w"].Version == 1 })
	version.Store(2)
	pollUntil(t, poller, triggers, targets, func(responses map[string]plan.AckResponse) bool {
		return responses["w"] == plan.AckResponse{Worker: "w", PodUID: "u", Version: 2, FileVersion: 2}
	})
	before := requests.Load()
	for range 100 {
		poller.Poll(pool, targets)
	}
	elsewhere := []plan.AckTarget{{Worker: "w", URL: "http://127.0.0.1:1/", PodUID: "u", Version: 2}}
	if responses, allPolled := poller.Poll(pool, elsewhere); !allPolled || responses["w"].Version != 2 {
		t.Errorf("what was said is forgotten when the place to ask changes: %v", responses)
	}
	if now := requests.Load(); now != before {
		t.Errorf("a worker was asked %d times more after it had answered", now-before)
	}
}

func TestReplacedPodIsPolledAgain(t *testing.T) {
	triggers := newTriggerChan()
	poller := New(triggers)
	version := &atomic.Int64{}
	version.Store(3)
	first, _ := newWorkerServer(t, "w", "first", version)
	second, _ := newWorkerServer(t, "w", "second", version)
	pollUntil(t, poller, triggers, []plan.AckTarget{{Worker: "w", URL: first, PodUID: "first", Version: 3}},
		func(responses map[string]plan.AckResponse) bool { return responses["w"].PodUID == "first" })
	replaced := []plan.AckTarget{{Worker: "w", URL: second, PodUID: "second", Version: 3}}
	if responses, allPolled := poller.Poll(pool, replaced); responses["w"].PodUID == "first" || allPolled {
		t.Errorf("the answer of a former pod counts: %v, tried %t", responses, allPolled)
	}
	pollUntil(t, poller, triggers, replaced, func(responses map[string]plan.AckResponse) bool { return responses["w"].PodUID == "second" })
}

func TestInvalidResponsesAreIgnored(t *testing.T) {
	for reason, handler := range map[string]http.HandlerFunc{
		"an error": func(response http.ResponseWriter, _ *http.Request) {
			response.WriteHeader(http.StatusInternalServerError)
		},
		"no JSON": func(response http.ResponseWriter, _ *http.Request) { fmt.Fprint(response, "hello") },
		"too long": func(response http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(response, `{"worker": %q, "version": 1}`, strings.Repeat("w", maxResponseSize))
		},
		"somewhere else": func(response http.ResponseWriter, request *http.Request) {
			http.Redirect(response, request, "http://127.0.0.1:1/", http.StatusFound)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			triggers := newTriggerChan()
			poller := New(triggers)
			targets := []plan.AckTarget{{Worker: "w", URL: server.URL, PodUID: "u", Version: 1}}
			poller.Poll(pool, targets)
			<-triggers
			if responses, allPolled := poller.Poll(pool, targets); !allPolled || responses["w"] != (plan.AckResponse{}) {
				t.Errorf("got %v, tried %t", responses, allPolled)
			}
			poller.Forget(pool)
		})
	}
}

// A blockingServer is a set of workers that do not answer until released. It counts simultaneous requests.
type blockingServer struct {
	current, peak atomic.Int64
	release       chan struct{}
	arrived       chan string // paths of the requests
}

func (c *blockingServer) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	count := c.current.Add(1)
	for old := c.peak.Load(); count > old && !c.peak.CompareAndSwap(old, count); old = c.peak.Load() {
	}
	c.arrived <- request.URL.Path
	<-c.release
	c.current.Add(-1)
	fmt.Fprint(response, `{"version": 1}`)
}

func newBlockingServer(t *testing.T) (blocking *blockingServer, url string) {
	t.Helper()
	blocking = &blockingServer{release: make(chan struct{}), arrived: make(chan string, 10*maxRequests)}
	server := httptest.NewServer(blocking)
	t.Cleanup(server.Close)
	return blocking, server.URL
}

func targetsAt(url string, count int) []plan.AckTarget {
	var targets []plan.AckTarget
	for n := range count {
		targets = append(targets, plan.AckTarget{Worker: fmt.Sprint(n), URL: url, PodUID: "u", Version: 1})
	}
	return targets
}

func TestRequestsAreLimited(t *testing.T) {
	for reason, c := range map[string]struct {
		namespaces int
		most       int64
	}{"of one namespace": {1, maxRequestsPerNamespace}, "in all": {2 * maxRequests / maxRequestsPerNamespace, maxRequests}} {
		t.Run(reason, func(t *testing.T) {
			server, url := newBlockingServer(t)
			poller := New(newTriggerChan())
			for n := range c.namespaces {
				poller.Poll(types.NamespacedName{Namespace: fmt.Sprint(n), Name: "pool"}, targetsAt(url, 2*maxRequestsPerNamespace))
			}
			for range c.most {
				<-server.arrived
			}
			close(server.release)
			for n := range c.namespaces {
				poller.Forget(types.NamespacedName{Namespace: fmt.Sprint(n), Name: "pool"})
			}
			if got := server.peak.Load(); got > c.most {
				t.Errorf("%d questions were under way at once, and %d is the most", got, c.most)
			}
		})
	}
}

// Unresponsive workers of one namespace do not delay other namespaces.
func TestNamespacesDoNotWaitForEachOther(t *testing.T) {
	server, url := newBlockingServer(t)
	poller := New(newTriggerChan())
	poller.client.Timeout = time.Hour
	poller.Poll(pool, targetsAt(url+"/silent", 3*maxRequests))
	for range maxRequestsPerNamespace {
		<-server.arrived
	}
	other := types.NamespacedName{Namespace: "other", Name: "pool"}
	poller.Poll(other, targetsAt(url+"/other", 1))
	select {
	case path := <-server.arrived:
		if path != "/other" {
			t.Errorf("one more of the first namespace is asked: %s", path)
		}
	case <-time.After(30 * time.Second):
		t.Error("the other namespace waits")
	}
	close(server.release)
	poller.Forget(pool)
	poller.Forget(other)
}
