package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// cameras is a pool of two workers, one of which is missing in the status.
func cameras(changes ...func(*v1alpha1.WorkerPool)) *v1alpha1.WorkerPool {
	pool := &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "cameras"},
		Spec:       v1alpha1.WorkerPoolSpec{Workers: v1alpha1.WorkloadReference{Kind: v1alpha1.WorkloadStatefulSet, Name: "w"}},
		Status: v1alpha1.WorkerPoolStatus{
			Phase: v1alpha1.PoolConverging, Size: 2, ExpectedSize: 3, Jobs: 4, Version: 7, Revision: 5, ConvergedRevision: 4,
			Workers:    []v1alpha1.WorkerStatus{{Name: "w-0", Jobs: 2, Acknowledged: v1alpha1.AckReceived, State: v1alpha1.WorkerReady}},
			Unassigned: []string{"gate"},
			Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Converging", Message: "waits for w-1"}},
		},
	}
	for _, change := range changes {
		change(pool)
	}
	return pool
}

const file = "version: 7\nworkloads:\n  w-0:\n    jobs:\n      - \"cctv <0>\"\n      - cctv1\n    version: 3\n  w-1:\n    jobs: []\n    version: 7\n"

func config(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{v1alpha1.LabelPool: "cameras"}},
		Data:       map[string]string{"config.yml": text},
	}
}

const shownPool = `"namespace":"a","name":"cameras","workload":{"kind":"StatefulSet","name":"w"},"phase":"Converging","size":2,"expectedSize":3,
	"jobs":4,"version":7,"revision":5,"convergedRevision":4,"converged":false,"reason":"Converging","message":"waits for w-1"`

func TestP16_AssignmentsAreShown(t *testing.T) {
	of := newTestAPI(t, &fakeReviews{}, cameras(), config("w-config", file))
	_, list := get(of, "/v1/pools", "root")
	equalJSON(t, list, `{"items":[{`+shownPool+`}]}`)
	_, detail := get(of, "/v1/pools/a/cameras", "root")
	equalJSON(t, detail, `{`+shownPool+`,
		"workers":[{"name":"w-0","jobs":["cctv <0>","cctv1"],"version":3,"acknowledged":"Acknowledged","state":"Ready"},
			{"name":"w-1","jobs":[],"version":7,"acknowledged":"","state":""}],
		"unassigned":["gate"],
		"conditions":[{"type":"Ready","status":"False","lastTransitionTime":null,"reason":"Converging","message":"waits for w-1"}]}`)
	_, worker := get(of, "/v1/pools/a/cameras/workers/w-0", "root")
	equalJSON(t, worker, `{"name":"w-0","jobs":["cctv <0>","cctv1"],"version":3,"acknowledged":"Acknowledged","state":"Ready"}`)
	status, missing := get(of, "/v1/pools/a/cameras/workers/w-2", "root")
	if equalJSON(t, missing, `{"error":"worker \"w-2\" not found in pool \"cameras\" in namespace \"a\""}`); status != http.StatusNotFound {
		t.Errorf("status %d", status)
	}
}

func TestPoolWithoutStatusIsShown(t *testing.T) {
	fresh := cameras(func(pool *v1alpha1.WorkerPool) { pool.Status = v1alpha1.WorkerPoolStatus{} })
	_, got := get(newTestAPI(t, &fakeReviews{}, fresh), "/v1/pools/a/cameras", "root")
	equalJSON(t, got,
		`{"namespace":"a","name":"cameras","workload":{"kind":"StatefulSet","name":"w"},"phase":"","size":0,"expectedSize":0,"jobs":0,"version":0,
		"revision":0,"convergedRevision":0,"converged":false,"reason":"","message":"","workers":[],"unassigned":[],"conditions":[]}`)
}

func TestConvergedIsTheCondition(t *testing.T) {
	done := cameras(func(pool *v1alpha1.WorkerPool) {
		pool.Status.Conditions = []metav1.Condition{v1alpha1.Ready(1, v1alpha1.ReasonConverged, "well"), v1alpha1.Converged(1, "")}
	})
	if got := poolOf(done); !got.Converged || got.Reason != "Converged" || got.Message != "well" {
		t.Errorf("got %+v", got)
	}
}

// formatWorkers prints the workers with their jobs, and the problem.
func formatWorkers(detail PoolDetail) string {
	var to []string
	for _, worker := range detail.Workers {
		to = append(to, worker.Name+"="+strings.Join(worker.Jobs, ","))
	}
	return strings.Join(append(to, detail.Problem), " ")
}

func TestWhereListsAreRead(t *testing.T) {
	perWorker := func(pool *v1alpha1.WorkerPool) { pool.Spec.Config.Layout = v1alpha1.LayoutPerWorker }
	one := func(worker, job string) string {
		return "version: 1\nworkloads:\n  " + worker + ":\n    jobs: [" + job + "]\n    version: 1\n"
	}
	foreign, keyed := config("w-config", file), config("named", "")
	foreign.Labels = nil
	keyed.Data = map[string]string{"jobs.yml": one("w-0", "x")}
	for _, c := range []struct {
		reason  string
		pool    *v1alpha1.WorkerPool
		configs []client.Object
		want    string
	}{
		{"one for all", cameras(), []client.Object{config("w-config", file)}, "w-0=cctv <0>,cctv1 w-1= "},
		{"a name and a key of its own", cameras(func(pool *v1alpha1.WorkerPool) {
			pool.Spec.Config.Name, pool.Spec.Config.Key = "named", "jobs.yml"
		}),
			[]client.Object{keyed}, "w-0=x "},
		{"none yet", cameras(), nil, "w-0= "},
		{"an empty placeholder", cameras(), []client.Object{config("w-config", "")}, "w-0= "},
		{"a foreign ConfigMap", cameras(), []client.Object{foreign},
			`w-0= read the published lists: ConfigMap "w-config" is not this pool's: it has no label swarm.io/pool=cameras`},
		{"not a file", cameras(), []client.Object{config("w-config", "version: [")}, `w-0= ConfigMap "w-config": read the workers' file: `},
		{"one for each, in their order", cameras(perWorker),
			[]client.Object{config("w-config-w-10", one("w-10", "c")), config("w-config-w-2", one("w-2", "b")),
				config("w-config-w-0", one("w-0", "a")), config("w-config", file), config("other-w-1", file)},
			"w-0=a w-2=b w-10=c "},
		{"one of them cannot be read", cameras(perWorker),
			[]client.Object{config("w-config-w-0", one("w-0", "a")), config("w-config-w-1", "workloads: {w-1: 3}")},
			`w-0=a ConfigMap "w-config-w-1": read the workers' file: `},
	} {
		t.Run(c.reason, func(t *testing.T) {
			of := newTestAPI(t, &fakeReviews{}, append(c.configs, c.pool)...)
			var detail PoolDetail
			if status := getStrict(t, of, "/v1/pools/a/cameras", &detail); status != http.StatusOK ||
				!strings.HasPrefix(formatWorkers(detail), c.want) {
				t.Errorf("got %d %q", status, formatWorkers(detail))
			}
			var worker WorkerDetail
			if getStrict(t, of, "/v1/pools/a/cameras/workers/w-0", &worker); worker.Name != "w-0" || worker.Problem != detail.Problem {
				t.Errorf("got %+v", worker)
			}
		})
	}
}

func TestUnknownWorkerMayBeInTheFileThatCannotBeRead(t *testing.T) {
	of := newTestAPI(t, &fakeReviews{}, cameras(), config("w-config", "workloads: {w-1: 3}"))
	if status, body := get(of, "/v1/pools/a/cameras/workers/w-1", "root"); status != http.StatusNotFound ||
		!strings.Contains(body, "read the workers' file") {
		t.Errorf("got %d %s", status, body)
	}
}

func TestSwarmsAreShown(t *testing.T) {
	fresh := &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "fresh"}}
	research := &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "research"},
		Status: v1alpha1.SwarmStatus{Phase: v1alpha1.SwarmPhaseRunning, Replicas: 6, ActiveAgents: 5,
			Tasks:      &v1alpha1.TaskCounts{Pending: 1, Running: 2, Completed: 3, Failed: 4},
			Conditions: []metav1.Condition{v1alpha1.Ready(1, v1alpha1.ReasonAvailable, "")}},
	}
	of := newTestAPI(t, &fakeReviews{}, fresh, research)
	_, got := get(of, "/v1/swarms", "root")
	equalJSON(t, got, `{"items":[
		{"namespace":"a","name":"research","phase":"Running","replicas":6,"activeAgents":5,"tasks":{"pending":1,"running":2,"completed":3,"failed":4},"ready":true,"reason":"Available"},
		{"namespace":"b","name":"fresh","phase":"","replicas":0,"activeAgents":0,"tasks":{"pending":0,"running":0,"completed":0,"failed":0},"ready":false,"reason":""}]}`)
	if _, got := get(of, "/v1/swarms?namespace=c", "root"); got != `{"items":[]}` {
		t.Errorf("got %s", got)
	}
}

func task(namespace, name, swarm string, holders ...string) *v1alpha1.Task {
	made := &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	made.Spec.SwarmRef.Name, made.Spec.Priority = swarm, v1alpha1.PriorityHigh
	made.Status = v1alpha1.TaskStatus{Phase: v1alpha1.TaskRunning, Progress: 40, Attempt: 2, Reason: "Running"}
	for _, holder := range holders {
		made.Status.AssignedAgents = append(made.Status.AssignedAgents, v1alpha1.AssignedAgent{Name: holder})
	}
	return made
}

func TestTasksAreShown(t *testing.T) {
	of := newTestAPI(t, &fakeReviews{}, task("a", "t1", "s", "s-x-1", "s-x-0", "s-x-1"), task("a", "t2", "other"), task("b", "t1", "s"))
	_, got := get(of, "/v1/tasks?namespace=a&swarm=s", "root")
	equalJSON(t, got,
		`{"items":[{"namespace":"a","name":"t1","swarm":"s","phase":"Running","progress":40,"priority":"high","attempt":2,"reason":"Running","agents":["s-x-0","s-x-1"]}]}`)
	var list List[Task]
	if getStrict(t, of, "/v1/tasks?swarm=s", &list); len(list.Items) != 2 || list.Items[1].Namespace != "b" || list.Items[1].Agents == nil {
		t.Errorf("got %+v", list)
	}
}

func keys(tasks []Task) []string {
	var to []string
	for _, item := range tasks {
		to = append(to, item.Namespace+"/"+item.Name)
	}
	return to
}

// readAllPages reads all pages.
func readAllPages(t *testing.T, handler http.Handler, limit int) (all []string) {
	t.Helper()
	for next := ""; ; {
		var list List[Task]
		getStrict(t, handler, fmt.Sprintf("/v1/tasks?limit=%d&continue=%s", limit, next), &list)
		all = append(all, keys(list.Items)...)
		if next = list.Continue; next == "" {
			return all
		}
		if len(list.Items) != limit || next != all[len(all)-1] {
			t.Fatalf("limit %d: %d items, then %s", limit, len(list.Items), next)
		}
	}
}

func TestPagesAreTheWholeListInOrder(t *testing.T) {
	var objects []client.Object
	for n := range 25 {
		objects = append(objects, task([]string{"b", "a-1", "a"}[n%3], fmt.Sprintf("t%d", n), "s"))
	}
	of := newTestAPI(t, &fakeReviews{}, objects...)
	var whole List[Task]
	if getStrict(t, of, "/v1/tasks", &whole); len(whole.Items) != 25 || whole.Continue != "" || whole.Items[0].Name != "t11" ||
		whole.Items[0].Namespace != "a" {
		t.Fatalf("got %+v", whole)
	}
	for _, limit := range []int{1, 2, 5, 24, 25, 26} {
		if paged := readAllPages(t, of, limit); !slices.Equal(paged, keys(whole.Items)) {
			t.Errorf("limit %d: got %v", limit, paged)
		}
	}
	var rest List[Task]
	if getStrict(t, of, "/v1/tasks?continue=a-1/gone", &rest); len(rest.Items) == 0 || rest.Items[0].Namespace != "a-1" {
		t.Errorf("an item that is gone ends the list: %+v", rest)
	}
}
