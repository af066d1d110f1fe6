package agent

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/kit"
)

// shownEvery is how often the load of an agent is written at most.
const shownEvery = 10 * time.Second

// report is the only status write.
func (r *reconciler) report(ctx context.Context, agent *v1alpha1.Agent, plan Plan) (kit.Result, error) {
	key := client.ObjectKeyFromObject(agent)
	if left := r.patience(key, agent, plan); left > 0 {
		return kit.RequeueAfter(left, "WorkloadUnwritten"), nil
	}
	before := agent.ResourceVersion
	report := r.status.Report(agent, &agent.Status.Conditions)
	conditions := agent.Status.Conditions
	agent.Status = plan.Status
	agent.Status.Conditions = conditions
	report.Condition(plan.Linked)
	if plan.Status.Phase == v1alpha1.AgentFailed || plan.Ready.Reason == string(v1alpha1.ReasonSwarmNotFound) {
		report.Warning(plan.Ready)
	} else {
		report.Normal(plan.Ready)
	}
	if err := report.Write(ctx); err != nil {
		return kit.Done(), fmt.Errorf("report on agent %q: %w", agent.Name, err)
	}
	if agent.ResourceVersion != before {
		r.wrote.Store(key, time.Now())
	}
	return kit.Done(), nil
}

// patience is how long news that is only about the load has to wait.
func (r *reconciler) patience(key client.ObjectKey, agent *v1alpha1.Agent, plan Plan) time.Duration {
	wrote, known := r.wrote.Load(key)
	quiet := plan.Status
	quiet.Workload, quiet.Conditions = agent.Status.Workload, agent.Status.Conditions
	ready := meta.FindStatusCondition(agent.Status.Conditions, v1alpha1.ConditionReady)
	same := ready != nil && ready.Status == plan.Ready.Status && ready.Reason == plan.Ready.Reason && stateOf(agent) == plan.Linked.Status
	if !known || !same || !equality.Semantic.DeepEqual(quiet, agent.Status) || equality.Semantic.DeepEqual(plan.Status.Workload, agent.Status.Workload) {
		return 0
	}
	return time.Until(wrote.(time.Time).Add(shownEvery))
}
