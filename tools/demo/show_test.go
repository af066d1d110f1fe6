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
func pretended(objects ...runtime.Object) cluster {
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

func theExample(t *testing.T) play {
	t.Helper()
	wanted, err := rehearse(example, "localhost/swarm-research:v9")
	if err != nil {
		t.Fatal(err)
	}
	return wanted
}

// put stores the example with a status for each of its objects.
func put(t *testing.T, wanted play) cluster {
	t.Helper()
	objects := []runtime.Object{wanted.swarm}
	for _, task := range wanted.tasks {
		objects = append(objects, task)
	}
	return pretended(objects...)
}

func report(t *testing.T, at cluster, kind schema.GroupVersionResource, name, status string) {
	t.Helper()
	object, err := at.in(kind).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(status), &fields); err != nil {
		t.Fatal(err)
	}
	object.Object["status"] = fields
	if _, err := at.in(kind).Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A witness remembers what was shown.
type witness struct {
	lock   sync.Mutex
	scenes []scene
}

func (w *witness) show(now scene) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.scenes = append(w.scenes, now)
}

func (*witness) close() {}

func (w *witness) saw(that func(scene) bool) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.ContainsFunc(w.scenes, that)
}

func (w *witness) await(t *testing.T, what string, that func(scene) bool) {
	t.Helper()
	for range 200 {
		if w.saw(that) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never saw %s", what)
}

func TestTheShowFollowsTheCluster(t *testing.T) {
	wanted := theExample(t)
	at, seen := put(t, wanted), &witness{}
	shown, ended := newShow(at, wanted, time.Now()), make(chan error, 1)
	go func() { ended <- shown.watch(t.Context(), seen) }()

	seen.await(t, "all tasks", func(s scene) bool { return len(s.tasks) == len(wanted.tasks) && s.tasks[0].Priority == "critical" })
	report(t, at, swarms, "research", `{"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}`)
	report(t, at, tasks, "plan-leases", `{"phase": "Running", "progress": 40, "assignedAgents": [{"name": "research-coordinator-1"}]}`)
	seen.await(t, "a ready swarm and a running task", func(s scene) bool { return s.swarm.ready() && s.tasks[0].Progress == 40 })
	for _, task := range wanted.tasks {
		report(t, at, tasks, task.GetName(), `{"phase": "Completed", "progress": 100, "result": {"topic": "x"}}`)
	}
	select {
	case err := <-ended:
		if err != nil || verdict(shown.last) != nil {
			t.Fatal(err, verdict(shown.last))
		}
	case <-time.After(5 * time.Second):
		t.Fatal("goes on although everything is done")
	}
	if shown.last.tasks[0].Agent != "research-coordinator-1" || shown.first <= 0 {
		t.Errorf("the last scene has %+v, first done after %s", shown.last.tasks[0], shown.first)
	}
}

func TestTheAuthorOfAResultIsBelieved(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"phase": "Completed", "result": map[string]any{"agent": "b"}}}}
	if found := taskOf(object, task{Agent: "a"}); found.Agent != "b" {
		t.Errorf("agent is %q", found.Agent)
	}
}

func TestTheEndIsExplained(t *testing.T) {
	next := hints{kubectl: "kubectl --kubeconfig=k"}
	for reason, example := range map[string]struct {
		err  error
		last scene
		want string
	}{
		"no operator":  {errUnattended, scene{swarm: swarm{Name: "research"}}, "is the operator running? kubectl --kubeconfig=k -n swarm-system get pods"},
		"no agents":    {errTimeout, beginning(), "not Ready after 3m0s: 3 of 6 agents are ready for work, 3 have a ready pod; 1 of 6 agents do not get up"},
		"tasks remain": {errTimeout, middle(), "search-ants is Pending: NoFreeSlot: all slots"},
		"interrupted":  {errInterrupted, middle(), "interrupted"},
	} {
		shown := &show{last: example.last}
		got := shown.explain(example.err, 3*time.Minute, next).Error()
		if !strings.Contains(got, example.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want %q", reason, got, example.want)
		}
	}
}

func TestTheExampleGetsItsImageAndNamespace(t *testing.T) {
	wanted := theExample(t)
	kinds, _, _ := unstructured.NestedSlice(wanted.swarm.Object, "spec", "agents")
	for _, kind := range kinds {
		containers, _, _ := unstructured.NestedSlice(kind.(map[string]any), "template", "spec", "containers")
		if image := containers[0].(map[string]any)["image"]; image != "localhost/swarm-research:v9" {
			t.Errorf("image %v", image)
		}
	}
	if wanted.swarm.GetNamespace() != namespace || wanted.tasks[0].GetNamespace() != namespace || len(wanted.tasks) < 10 {
		t.Errorf("%d tasks in %q", len(wanted.tasks), wanted.tasks[0].GetNamespace())
	}
}

func TestTheFavouriteIsInTheExample(t *testing.T) {
	for _, task := range theExample(t).tasks {
		if task.GetName() == favourite {
			return
		}
	}
	t.Errorf("no task is called %s", favourite)
}

func TestTheSwarmGoesBeforeItsNamespace(t *testing.T) {
	wanted := theExample(t)
	at := put(t, wanted)
	var out strings.Builder
	if err := at.strike(t.Context(), &out, "research"); err != nil {
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
	if err := pretended().check(t.Context()); err != nil {
		t.Errorf("with the operator: %v", err)
	}
	missing := pretended()
	missing.client.(*fake.FakeDynamicClient).PrependReactor("list", "swarms", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(swarms.GroupResource(), "")
	})
	if err := missing.check(t.Context()); err == nil || !strings.Contains(err.Error(), "run make install KUBECONFIG=k") {
		t.Errorf("without the operator: %v", err)
	}
}

func TestClusterAndRepositoryMustBeNamed(t *testing.T) {
	for _, arguments := range [][]string{{}, {"--kubeconfig", "k"}, {"--root", "r"}} {
		if _, err := parse(arguments); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
			t.Errorf("%q: got %v", arguments, err)
		}
	}
}

// A task that has finished stays finished, so a second run needs new ones.
func TestASecondRunReplacesTheTasks(t *testing.T) {
	wanted := theExample(t)
	at := put(t, wanted)
	report(t, at, tasks, "plan-leases", `{"phase": "Completed", "progress": 100}`)
	if err := at.stage(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	list, err := at.in(tasks).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != len(wanted.tasks) {
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
