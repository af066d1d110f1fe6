package acknowledge

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var pool = types.NamespacedName{Namespace: "n", Name: "p"}

// bell rings whenever there is news.
type bell chan types.NamespacedName

func (b bell) After(name types.NamespacedName, _ time.Duration) {
	select {
	case b <- name:
	default:
	}
}

func newBell() bell { return make(bell, 1024) }

// until asks whenever the bell rings, until the answers are as wanted.
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

// worker answers with a version that can change.
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

func TestNoMoreThanSoManyAtOnce(t *testing.T) {
	var now, highest atomic.Int64
	var once sync.Once
	full, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		count := now.Add(1)
		for old := highest.Load(); count > old && !highest.CompareAndSwap(old, count); old = highest.Load() {
		}
		if count == most {
			once.Do(func() { close(full) })
		}
		<-release
		now.Add(-1)
		fmt.Fprint(answer, `{"version": 1}`)
	}))
	t.Cleanup(server.Close)
	asker := New(newBell())
	var questions []Question
	for n := range 3 * most {
		questions = append(questions, Question{Worker: fmt.Sprint(n), URL: server.URL, UID: "u", Version: 1})
	}
	asker.Ask(pool, questions)
	<-full
	close(release)
	asker.Forget(pool)
	if got := highest.Load(); got > most {
		t.Errorf("%d questions were under way at once, and %d is the most", got, most)
	}
}
