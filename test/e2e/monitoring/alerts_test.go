package monitoring

import (
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// alertNames are the names of the alerts in the component.
func alertNames() (names []string) {
	GinkgoHelper()
	text, err := os.ReadFile(testcluster.FromRoot("deploy", "kustomize", "components", "monitoring", "rules.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var object struct {
		Spec struct {
			Groups []struct{ Rules []struct{ Alert string } }
		}
	}
	Expect(yaml.Unmarshal(text, &object)).To(Succeed())
	for _, group := range object.Spec.Groups {
		for _, rule := range group.Rules {
			names = append(names, rule.Alert)
		}
	}
	Expect(names).NotTo(BeEmpty())
	return names
}

// requiredSeries are the series of the alerts that exist once a pod of a spread workload was requested and nothing is wrong. Others count
// problems, and appear with the first one.
var requiredSeries = []string{
	`leader_election_master_status{name="swarm-operator"}`,
	`controller_runtime_reconcile_total{job="swarm-operator-metrics",controller!=""}`,
	`controller_runtime_reconcile_errors_total{job="swarm-operator-metrics",controller!=""}`,
	`controller_runtime_terminal_reconcile_errors_total{job="swarm-operator-metrics",controller!=""}`,
	`swarm_webhook_request_duration_seconds_count{webhook!="",outcome!=""}`,
	`swarm_webhook_request_duration_seconds_bucket{webhook!="",le!=""}`,
	`swarm_placement_answers_total{by="leader"}`,
	`swarm_spread_workloads{status="SpotUnavailable"}`,
	`swarm_spread_workloads{status="Invalid"}`,
	`swarm_spread_workloads{status="BlockedByPDB"}`,
	`swarm_task_unfinished{state="waiting"}`,
	`swarm_task_unfinished{state="running"}`,
	`swarm_task_wait_seconds_count`,
	`swarm_task_wait_seconds_bucket{le!=""}`,
}

// webhookFailureCounts are the counters of the API server for the alerts about webhooks that are down.
var webhookFailureCounts = map[string]string{
	"SwarmPoolWebhookDown":   `sum(apiserver_admission_webhook_rejection_count{name="pods.swarm.io",rejection_code=~"5.."})`,
	"SwarmSpreadWebhookDown": `sum(apiserver_admission_webhook_fail_open_count{name="spread.swarm.io"})`,
}

// quietStates are the states of an alert while nothing is wrong. To this Prometheus, earlier counts of the API server look new for 6
// minutes, which is less than the period of these two alerts.
func quietStates(alert string) []string {
	if webhookFailureCounts[alert] != "" {
		return []string{"inactive", "pending"}
	}
	return []string{"inactive"}
}
