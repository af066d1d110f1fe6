package main

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

const example = "../../examples/research"

// A pretended cluster stores what it is given and does nothing by itself.
func newFakeCluster(objects ...runtime.Object) cluster {
	lists := map[schema.GroupVersionResource]string{swarms: "SwarmList", tasks: "TaskList", namespaces: "NamespaceList"}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)
	// The fake applies only to existing objects; we also need others.
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(action.(clienttesting.PatchAction).GetPatch()); err != nil {
			return true, nil, err
		}
		err := client.Tracker().Create(action.GetResource(), object, action.GetNamespace())
		if apierrors.IsAlreadyExists(err) {
			err = client.Tracker().Update(action.GetResource(), object, action.GetNamespace())
		}
		return true, object, err
	})
	return cluster{client: client, kubeconfig: "k"}
}

func readExample(t *testing.T) demoManifests {
	t.Helper()
	wanted, err := readManifests(example, "localhost/swarm-research:v9")
	if err != nil {
		t.Fatal(err)
	}
	return wanted
}

// storeExample stores the example with a status for each of its objects.
func storeExample(t *testing.T, wanted demoManifests) cluster {
	t.Helper()
	objects := []runtime.Object{wanted.swarm}
	for _, task := range wanted.tasks {
		objects = append(objects, task)
	}
	return newFakeCluster(objects...)
}

func report(t *testing.T, c cluster, kind schema.GroupVersionResource, name, status string) {
	t.Helper()
	object, err := c.resource(kind).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(status), &fields); err != nil {
		t.Fatal(err)
	}
	object.Object["status"] = fields
	if _, err := c.resource(kind).Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A recordingDisplay remembers what was shown.
type recordingDisplay struct {
	lock   sync.Mutex
	states []demoState
}

func (w *recordingDisplay) draw(now demoState) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.states = append(w.states, now)
}

func (*recordingDisplay) close() {}

func (w *recordingDisplay) hasSeen(that func(demoState) bool) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.ContainsFunc(w.states, that)
}

func (w *recordingDisplay) await(t *testing.T, description string, that func(demoState) bool) {
	t.Helper()
	for range 200 {
		if w.hasSeen(that) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never saw %s", description)
}

func TestSessionFollowsTheCluster(t *testing.T) {
	manifests := readExample(t)
	at, recorder := storeExample(t, manifests), &recordingDisplay{}
	session, done := newSession(at, manifests, time.Now()), make(chan error, 1)
	go func() { done <- session.watch(t.Context(), recorder) }()

	recorder.await(t, "all tasks", func(s demoState) bool {
		return len(s.tasks) == len(manifests.tasks) && s.tasks[0].Priority == "critical"
	})
	report(t, at, swarms, "research", `{"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}`)
	report(t, at, tasks, "plan-leases", `{"phase": "Running", "progress": 40, "assignedAgents": [{"name": "research-coordinator-1"}]}`)
	recorder.await(t, "a ready swarm and a running task", func(s demoState) bool { return s.swarm.ready() && s.tasks[0].Progress == 40 })
	for _, task := range manifests.tasks {
		report(t, at, tasks, task.GetName(), `{"phase": "Completed", "progress": 100, "result": {"topic": "x"}}`)
	}
	select {
	case err := <-done:
		if err != nil || checkCompleted(session.last) != nil {
			t.Fatal(err, checkCompleted(session.last))
		}
	case <-time.After(5 * time.Second):
		t.Fatal("goes on although everything is done")
	}
	if session.last.tasks[0].Agent != "research-coordinator-1" || session.first <= 0 {
		t.Errorf("the last scene has %+v, first done after %s", session.last.tasks[0], session.first)
	}
}

func TestResultNamesItsAuthor(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"phase": "Completed",
		"result": map[string]any{"agent": "b"}}}}
	if found := taskOf(object, task{Agent: "a"}); found.Agent != "b" {
		t.Errorf("agent is %q", found.Agent)
	}
}

func TestErrorsAreExplained(t *testing.T) {
	next := hints{kubectl: "kubectl --kubeconfig=k"}
	for reason, example := range map[string]struct {
		err  error
		last demoState
		want string
	}{
		"no operator": {errNoOperator, demoState{swarm: swarm{Name: "research"}},
			"is the operator running? kubectl --kubeconfig=k -n swarm-system get pods"},
		"no agents": {errTimeout, beginning(),
			"not Ready after 3m0s: 3 of 6 agents are ready for work, 3 have a ready pod; 1 of 6 agents do not get up"},
		"tasks remain": {errTimeout, middle(), "search-ants is Pending: NoFreeSlot: all slots"},
		"interrupted":  {errInterrupted, middle(), "interrupted"},
	} {
		shown := &session{last: example.last}
		got := shown.explain(example.err, 3*time.Minute, next).Error()
		if !strings.Contains(got, example.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want %q", reason, got, example.want)
		}
	}
}

func TestTheExampleGetsItsImageAndNamespace(t *testing.T) {
	manifests := readExample(t)
	kinds, _, _ := unstructured.NestedSlice(manifests.swarm.Object, "spec", "agents")
	for _, kind := range kinds {
		containers, _, _ := unstructured.NestedSlice(kind.(map[string]any), "template", "spec", "containers")
		if image := containers[0].(map[string]any)["image"]; image != "localhost/swarm-research:v9" {
			t.Errorf("image %v", image)
		}
	}
	if manifests.swarm.GetNamespace() != namespace || manifests.tasks[0].GetNamespace() != namespace || len(manifests.tasks) < 10 {
		t.Errorf("%d tasks in %q", len(manifests.tasks), manifests.tasks[0].GetNamespace())
	}
}

func TestShownTaskIsInTheExample(t *testing.T) {
	for _, task := range readExample(t).tasks {
		if task.GetName() == shownTask {
			return
		}
	}
	t.Errorf("no task is called %s", shownTask)
}

func TestTheSwarmGoesBeforeItsNamespace(t *testing.T) {
	wanted := readExample(t)
	at := storeExample(t, wanted)
	var out strings.Builder
	if err := at.uninstall(t.Context(), &out, "research"); err != nil {
		t.Fatal(err)
	}
	var verbs []string
	for _, action := range at.client.(*fake.FakeDynamicClient).Actions() {
		if action.GetVerb() == "delete" {
			verbs = append(verbs, action.GetResource().Resource)
		}
	}
	if strings.Join(verbs, " ") != "swarms namespaces" || !strings.Contains(out.String(), "make uninstall KUBECONFIG=k") {
		t.Errorf("deleted %q, said %q", verbs, out.String())
	}
}

func TestACluster(t *testing.T) {
	if err := newFakeCluster().check(t.Context()); err != nil {
		t.Errorf("with the operator: %v", err)
	}
	missing := newFakeCluster()
	missing.client.(*fake.FakeDynamicClient).PrependReactor("list", "swarms", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(swarms.GroupResource(), "")
	})
	if err := missing.check(t.Context()); err == nil || !strings.Contains(err.Error(), "run make install KUBECONFIG=k") {
		t.Errorf("without the operator: %v", err)
	}
}

// A task that has finished stays finished, so a second run needs new ones.
func TestASecondRunReplacesTheTasks(t *testing.T) {
	manifests := readExample(t)
	at := storeExample(t, manifests)
	report(t, at, tasks, "plan-leases", `{"phase": "Completed", "progress": 100}`)
	if err := at.install(t.Context(), manifests); err != nil {
		t.Fatal(err)
	}
	list, err := at.resource(tasks).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != len(manifests.tasks) {
		t.Fatalf("%d tasks: %v", len(list.Items), err)
	}
	for n := range list.Items {
		if taskOf(&list.Items[n], task{}).Phase != "Pending" {
			t.Errorf("%s is left over", list.Items[n].GetName())
		}
	}
	space, err := at.client.Resource(namespaces).Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil || space.GetLabels()["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("namespace %v: %v", space, err)
	}
}
