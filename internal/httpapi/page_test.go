package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func nameOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func podsOf(names ...string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, name := range names {
		namespace, name, _ := strings.Cut(name, "/")
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	return pods
}

// Caches list in no order: pages of an unsorted list would lose items and repeat others.
func TestPagesDoNotDependOnTheOrderOfTheCache(t *testing.T) {
	for reason, c := range map[string]struct {
		asked page
		want  string
		more  string
	}{
		"the first two":          {page{limit: 2}, "a/1 a/2", "a/2"},
		"the next two":           {page{limit: 2, after: client.ObjectKey{Namespace: "a", Name: "2"}}, "b/0 b/1", ""},
		"all of exactly as many": {page{limit: 4}, "a/1 a/2 b/0 b/1", ""},
		"after the last":         {page{limit: 4, after: client.ObjectKey{Namespace: "b", Name: "1"}}, "", ""},
	} {
		t.Run(reason, func(t *testing.T) {
			got := paginate(podsOf("b/1", "a/2", "b/0", "a/1"), c.asked, nameOf)
			if items := strings.Join(got.Items, " "); items != c.want || got.Continue != c.more {
				t.Errorf("got %q and %q, want %q and %q", items, got.Continue, c.want, c.more)
			}
		})
	}
}

// failingReader is a cache that cannot list.
type failingReader struct{ client.Reader }

func (failingReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("the cache has stopped")
}

// An empty list would mean that everything is gone.
func TestListThatCannotBeReadIsNotEmpty(t *testing.T) {
	of := New(Config{Reader: failingReader{}, Authorizer: DelegatedAuthorizer{fakeTokenReviews{&fakeReviews{}},
		fakeAccessReviews{&fakeReviews{}}}, Log: slog.New(slog.DiscardHandler)})
	for _, path := range []string{"/v1/swarms", "/v1/pools", "/v1/tasks"} {
		if code, body := get(of, path, "root"); code != http.StatusInternalServerError || strings.Contains(body, "items") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

func TestWorkerWithoutAListHasVersionZero(t *testing.T) {
	pool := &v1alpha1.WorkerPool{}
	pool.Status.Workers = []v1alpha1.WorkerStatus{{Name: "w-10"}, {Name: "w-2"}}
	got := workersOf(pool, nil)
	if len(got) != 2 || got[0].Name != "w-2" || got[0].Version != 0 || got[0].Jobs == nil || len(got[0].Jobs) != 0 {
		t.Errorf("got %+v", got)
	}
}
