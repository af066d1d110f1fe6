package acknowledge

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var pool = types.NamespacedName{Namespace: "n", Name: "p"}

// bell rings when there is a new answer.
type bell chan types.NamespacedName

func (b bell) After(name types.NamespacedName, _ time.Duration) {
	select {
	case b <- name:
	default:
	}
}

func newBell() bell { return make(bell, 1024) }

// until repeats the questions whenever the bell rings, until the answers are as wanted.
func until(t *testing.T, asker *Asker, rings bell, questions []Question, wanted func(map[string]Answer) bool) {
	t.Helper()
	patience := time.After(20 * time.Second)
	for {
		if answers, _ := asker.Ask(pool, questions); wanted(answers) {
			return
		}
		select {
		case <-rings:
		case <-patience:
			answers, tried := asker.Ask(pool, questions)
			t.Fatalf("the answers stay %v (tried: %t)", answers, tried)
		}
	}
}

// worker answers with a variable version.
func worker(t *testing.T, name, uid string, version *atomic.Int64) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprintf(answer, `{"worker": %q, "podUID": %q, "version": %d, "config": %d}`, name, uid, version.Load(), version.Load())
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func TestItAsksUntilTheAnswerIsTheRightOne(t *testing.T) {
	rings := newBell()
	asker := New(rings)
	version := &atomic.Int64{}
	version.Store(1)
	url, asked := worker(t, "w", "u", version)
	questions := []Question{{Worker: "w", URL: url, UID: "u", Version: 2}}
	until(t, asker, rings, questions, func(answers map[string]Answer) bool { return answers["w"].Version == 1 })
	version.Store(2)
	until(t, asker, rings, questions, func(answers map[string]Answer) bool {
		return answers["w"] == Answer{Worker: "w", UID: "u", Version: 2, Config: 2}
	})
	before := asked.Load()
	for range 100 {
		asker.Ask(pool, questions)
	}
	elsewhere := []Question{{Worker: "w", URL: "http://127.0.0.1:1/", UID: "u", Version: 2}}
	if answers, tried := asker.Ask(pool, elsewhere); !tried || answers["w"].Version != 2 {
		t.Errorf("what was said is forgotten when the place to ask changes: %v", answers)
	}
	if now := asked.Load(); now != before {
		t.Errorf("a worker was asked %d times more after it had answered", now-before)
	}
}

func TestAnotherPodIsAskedAnew(t *testing.T) {
	rings := newBell()
	asker := New(rings)
	version := &atomic.Int64{}
	version.Store(3)
	first, _ := worker(t, "w", "first", version)
	second, _ := worker(t, "w", "second", version)
	until(t, asker, rings, []Question{{Worker: "w", URL: first, UID: "first", Version: 3}}, func(answers map[string]Answer) bool { return answers["w"].UID == "first" })
	replaced := []Question{{Worker: "w", URL: second, UID: "second", Version: 3}}
	if answers, tried := asker.Ask(pool, replaced); answers["w"].UID == "first" || tried {
		t.Errorf("the answer of a former pod counts: %v, tried %t", answers, tried)
	}
	until(t, asker, rings, replaced, func(answers map[string]Answer) bool { return answers["w"].UID == "second" })
}

func TestWhatIsNoAnswerIsTriedAndNothingMore(t *testing.T) {
	for reason, handler := range map[string]http.HandlerFunc{
		"an error": func(answer http.ResponseWriter, _ *http.Request) { answer.WriteHeader(http.StatusInternalServerError) },
		"no JSON":  func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprint(answer, "hello") },
		"too long": func(answer http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(answer, `{"worker": %q, "version": 1}`, strings.Repeat("w", mostAnswer))
		},
		"somewhere else": func(answer http.ResponseWriter, request *http.Request) {
			http.Redirect(answer, request, "http://127.0.0.1:1/", http.StatusFound)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			rings := newBell()
			asker := New(rings)
			questions := []Question{{Worker: "w", URL: server.URL, UID: "u", Version: 1}}
			asker.Ask(pool, questions)
			<-rings
			if answers, tried := asker.Ask(pool, questions); !tried || answers["w"] != (Answer{}) {
				t.Errorf("got %v, tried %t", answers, tried)
			}
			asker.Forget(pool)
		})
	}
}

// A crowd is a set of workers that do not answer until released. It counts simultaneous requests.
type crowd struct {
	now, highest atomic.Int64
	release      chan struct{}
	arrived      chan string // paths of the requests
}

func (c *crowd) ServeHTTP(answer http.ResponseWriter, question *http.Request) {
	count := c.now.Add(1)
	for old := c.highest.Load(); count > old && !c.highest.CompareAndSwap(old, count); old = c.highest.Load() {
	}
	c.arrived <- question.URL.Path
	<-c.release
	c.now.Add(-1)
	fmt.Fprint(answer, `{"version": 1}`)
}

func newCrowd(t *testing.T) (asked *crowd, url string) {
	t.Helper()
	asked = &crowd{release: make(chan struct{}), arrived: make(chan string, 10*most)}
	server := httptest.NewServer(asked)
	t.Cleanup(server.Close)
	return asked, server.URL
}

func questionsTo(url string, count int) []Question {
	var questions []Question
	for n := range count {
		questions = append(questions, Question{Worker: fmt.Sprint(n), URL: url, UID: "u", Version: 1})
	}
	return questions
}

func TestNoMoreThanSoManyAtOnce(t *testing.T) {
	for reason, c := range map[string]struct {
		namespaces int
		most       int64
	}{"of one namespace": {1, mostOfOne}, "in all": {2 * most / mostOfOne, most}} {
		t.Run(reason, func(t *testing.T) {
			asked, url := newCrowd(t)
			asker := New(newBell())
			for n := range c.namespaces {
				asker.Ask(types.NamespacedName{Namespace: fmt.Sprint(n), Name: "pool"}, questionsTo(url, 2*mostOfOne))
			}
			for range c.most {
				<-asked.arrived
			}
			close(asked.release)
			for n := range c.namespaces {
				asker.Forget(types.NamespacedName{Namespace: fmt.Sprint(n), Name: "pool"})
			}
			if got := asked.highest.Load(); got > c.most {
				t.Errorf("%d questions were under way at once, and %d is the most", got, c.most)
			}
		})
	}
}

// Unresponsive workers of one namespace do not delay other namespaces.
func TestNamespacesDoNotWaitForEachOther(t *testing.T) {
	asked, url := newCrowd(t)
	asker := New(newBell())
	asker.client.Timeout = time.Hour
	asker.Ask(pool, questionsTo(url+"/silent", 3*most))
	for range mostOfOne {
		<-asked.arrived
	}
	other := types.NamespacedName{Namespace: "other", Name: "pool"}
	asker.Ask(other, questionsTo(url+"/other", 1))
	select {
	case path := <-asked.arrived:
		if path != "/other" {
			t.Errorf("one more of the first namespace is asked: %s", path)
		}
	case <-time.After(30 * time.Second):
		t.Error("the other namespace waits")
	}
	close(asked.release)
	asker.Forget(pool)
	asker.Forget(other)
}
