package hostile

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeagents"
	"github.com/swarm-io/swarm-operator/test/invariant"
)

// expectCompleted expects that every honest task was started and finished once by its own swarm.
func (s *environment) expectCompleted(ctx context.Context) {
	GinkgoHelper()
	tasks, err := s.honestTasks(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(tasks).To(HaveLen(len(s.program.started)), "of all tasks that were started none is missing")
	Expect(len(tasks)).To(BeNumerically(">=", len(s.honest)*(7*tasksPerSwarm+1)))
	journal := s.expectJournal()
	attempts := map[string][]string{}
	for _, entry := range journal {
		if entry.Event == "start" || entry.Event == "finish" {
			attempts[entry.UID] = append(attempts[entry.UID], strings.TrimSpace(entry.Event+" "+entry.Outcome))
		}
	}
	for _, task := range tasks {
		description := fmt.Sprintf("%s/%s: %s", task.Namespace, task.Name, text(task.Status))
		Expect(task.Status.Phase).To(Equal(v1alpha1.TaskCompleted), description)
		Expect(attempts[string(task.UID)]).To(Equal([]string{"start", "finish succeeded"}), description)
		Expect(task.Status.Retries+task.Status.Reassignments+task.Status.HandBacks).To(BeZero(), description)
		Expect(task.Status.Result).NotTo(BeNil(), description)
		Expect(string(task.Status.Result.Raw)).To(HavePrefix(`{"by":"`+honest+`-worker-`), description)
	}
}

// expectJournal expects that no two attempts of honest agents overlap, and returns what they have noted.
func (s *environment) expectJournal() fakeagents.Journal {
	GinkgoHelper()
	journal := s.agents.Journal()
	Expect(journal.Verify()).To(Succeed())
	Expect(broken(journal)).To(BeEmpty())
	return journal
}

// broken are the invariants that a journal breaks.
func broken(journal fakeagents.Journal) []string {
	type task struct {
		invariant.History[int64]
		running int
	}
	tasks, violations := map[string]*task{}, []string(nil)
	for _, entry := range journal {
		record := tasks[entry.UID]
		if record == nil {
			record = &task{}
			tasks[entry.UID] = record
		}
		switch entry.Event {
		case "finish":
			record.running--
		case "start":
			record.running++
			for _, each := range record.RecordStart(entry.Epoch, record.running, false) {
				violations = append(violations, fmt.Sprintf("%s: %s", each, entry))
			}
		}
	}
	return violations
}

// expectNothingHostile expects that what the operator writes about honest swarms contains nothing of a hostile program.
func (s *environment) expectNothingHostile(ctx context.Context) {
	GinkgoHelper()
	tasks, err := s.honestTasks(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, task := range tasks {
		Expect(text(task.Status)).NotTo(ContainSubstring(intruder))
	}
	agents, err := s.honestAgents(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(agents).To(HaveLen(3 * len(s.honest)))
	for _, agent := range agents {
		Expect(text(agent)).NotTo(ContainSubstring(intruder))
	}
	for _, swarm := range s.honest {
		found := &v1alpha1.Swarm{}
		Expect(api.Get(ctx, client.ObjectKeyFromObject(swarm), found)).To(Succeed())
		Expect(text(found)).NotTo(ContainSubstring(intruder))
		sets, events := &appsv1.StatefulSet{}, &corev1.EventList{}
		Expect(api.Get(ctx, client.ObjectKey{Namespace: swarm.Namespace, Name: honest + "-worker"}, sets)).To(Succeed())
		Expect(text(sets)).NotTo(ContainSubstring(intruder))
		Expect(api.List(ctx, events, client.InNamespace(swarm.Namespace))).To(Succeed())
		for _, event := range events.Items {
			if strings.HasPrefix(event.InvolvedObject.Name, honest) {
				Expect(event.Message).NotTo(ContainSubstring(intruder))
			}
		}
	}
}

// expectTerm expects that epochs of honest tasks are of a term, and that the fence of the honest pool is that of before.
func (s *environment) expectTerm(ctx context.Context, term string) {
	GinkgoHelper()
	tasks, err := s.honestTasks(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, task := range tasks {
		Expect(fmt.Sprint(task.Status.Epoch>>32)).To(Equal(term), task.Name)
	}
	Expect(fence(ctx, s.pools[0])).To(Equal(s.fence))
}
