package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/kit"
)

// statusWriteInterval is the minimum interval between writes of an agent's load.
const statusWriteInterval = 10 * time.Second

// clearWorkload clears the part of the status that can be delayed.
func clearWorkload(agent *v1alpha1.Agent) { agent.Status.Workload = nil }

// report is the only status write.
func (r *reconciler) report(ctx context.Context, agent *v1alpha1.Agent, plan Plan) (kit.Result, error) {
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
	if left := report.WriteDelay(); left > 0 {
		return kit.RequeueAfter(left, "WorkloadUnwritten"), nil
	}
	if err := report.Write(ctx); err != nil {
		return kit.Done(), fmt.Errorf("report on agent %q: %w", agent.Name, err)
	}
	return kit.Done(), nil
}
