package alerts

import "time"

type alertScenarios struct{ firing, silent []scenario }

// scenariosByAlert are by the name of the alert.
var scenariosByAlert = map[string]alertScenarios{
	"SwarmOperatorDown": {
		firing: []scenario{
			{reason: "no replica answers", pendingAt: 5 * time.Minute, series: `
				up{job="swarm-operator-metrics",instance="a"} 1x9 0x60
				up{job="swarm-operator-metrics",instance="b"} 1x5 0x60`},
			{reason: "there are no replicas any more", pendingAt: 5 * time.Minute, series: `
				up{job="swarm-operator-metrics",instance="a"} 1x9 stale`},
			{reason: "there never were any", pendingAt: 0, series: `
				up{job="apiserver",instance="x"} 1x60`},
		},
		silent: []scenario{
			{reason: "one of two answers", series: `
				up{job="swarm-operator-metrics",instance="a"} 0x240
				up{job="swarm-operator-metrics",instance="b"} 1x240`},
			{reason: "it is away for four minutes", series: `
				up{job="swarm-operator-metrics",instance="a"} 1x9 0x7 1x240`},
		},
	},
	"SwarmOperatorReplicaDown": {
		firing: []scenario{{reason: "one of two does not answer", pendingAt: 5 * time.Minute, series: `
				up{job="swarm-operator-metrics",instance="a"} 1x9 0x60
				up{job="swarm-operator-metrics",instance="b"} 1x240`}},
		silent: []scenario{
			{reason: "both answer", series: `
				up{job="swarm-operator-metrics",instance="a"} 1x240
				up{job="swarm-operator-metrics",instance="b"} 1x240`},
			{reason: "pods are replaced", series: `
				up{job="swarm-operator-metrics",instance="a"} 1x9 0x10 stale
				up{job="swarm-operator-metrics",instance="b"} _x9 0x10 1x240`},
		},
	},
	"SwarmOperatorNoLeader": {
		firing: []scenario{{reason: "the leader leads no more and has no successor", pendingAt: 5 * time.Minute, series: `
				leader_election_master_status{name="swarm-operator",pod="a"} 1x9 0x60
				leader_election_master_status{name="swarm-operator",pod="b"} 0x60
				leader_election_master_status{name="another",pod="c"} 1x60`}},
		silent: []scenario{
			{reason: "one leads", series: `
				leader_election_master_status{name="swarm-operator",pod="a"} 1x240
				leader_election_master_status{name="swarm-operator",pod="b"} 0x240`},
			{reason: "another takes over within a minute and a half", series: `
				leader_election_master_status{name="swarm-operator",pod="a"} 1x9 0x240
				leader_election_master_status{name="swarm-operator",pod="b"} 0x12 1x240`},
		},
	},
	"SwarmOperatorLeaderChanges": {
		firing: []scenario{{reason: "two replicas take the lead from each other every five minutes", pendingAt: 15 * time.Minute, series: `
				leader_election_master_status{name="swarm-operator",pod="a"} 1x9 0x9 1x9 0x9 1x9
				leader_election_master_status{name="swarm-operator",pod="b"} 0x9 1x9 0x9 1x9 0x9`}},
		silent: []scenario{
			{reason: "it stays", series: `
				leader_election_master_status{name="swarm-operator",pod="a"} 1x240
				leader_election_master_status{name="swarm-operator",pod="b"} 0x240`},
			{reason: "it changes twice in an hour", series: `
				leader_election_master_status{name="swarm-operator",pod="a"} 1x39 0x39 1x160
				leader_election_master_status{name="swarm-operator",pod="b"} 0x39 1x39 0x160`},
			{reason: "two updates replace all pods", series: `
				leader_election_master_status{name="swarm-operator",pod="a"} 1x19 stale
				leader_election_master_status{name="swarm-operator",pod="b"} 0x19 1x3 stale
				leader_election_master_status{name="swarm-operator",pod="c"} _x18 0x5 1x30 stale
				leader_election_master_status{name="swarm-operator",pod="d"} _x22 0x33 1x3 stale
				leader_election_master_status{name="swarm-operator",pod="e"} _x54 0x6 1x180`},
		},
	},
	"SwarmReconcileErrors": {
		firing: []scenario{{reason: "every other reconcile of one controller fails", pendingAt: evaluationInterval, series: `
				controller_runtime_reconcile_errors_total{job="swarm-operator-metrics",controller="swarm"} 0+1x240
				controller_runtime_reconcile_total{job="swarm-operator-metrics",controller="swarm",result="error"} 0+1x240
				controller_runtime_reconcile_total{job="swarm-operator-metrics",controller="swarm",result="success"} 0+1x240
				controller_runtime_reconcile_errors_total{job="swarm-operator-metrics",controller="task"} 0x240
				controller_runtime_reconcile_total{job="swarm-operator-metrics",controller="task",result="success"} 0+100x240`}},
		silent: []scenario{
			{reason: "one of ten fails", series: `
				controller_runtime_reconcile_errors_total{job="swarm-operator-metrics",controller="swarm"} 0+1x240
				controller_runtime_reconcile_total{job="swarm-operator-metrics",controller="swarm",result="error"} 0+1x240
				controller_runtime_reconcile_total{job="swarm-operator-metrics",controller="swarm",result="success"} 0+9x240`},
			{reason: "all fail for a minute", series: `
				controller_runtime_reconcile_errors_total{job="swarm-operator-metrics",controller="swarm"} 0x9 10 20x240
				controller_runtime_reconcile_total{job="swarm-operator-metrics",controller="swarm",result="error"} 0x9 10 20x240
				controller_runtime_reconcile_total{job="swarm-operator-metrics",controller="swarm",result="success"} 0+1x240`},
			{reason: "there is nothing to do", series: `
				controller_runtime_reconcile_errors_total{job="swarm-operator-metrics",controller="swarm"} 0x240
				controller_runtime_reconcile_total{job="swarm-operator-metrics",controller="swarm",result="success"} 0x240`},
			{reason: "another operator of controller-runtime fails", series: `
				controller_runtime_reconcile_errors_total{job="another",controller="swarm"} 0+1x240
				controller_runtime_reconcile_total{job="another",controller="swarm",result="error"} 0+1x240`},
		},
	},
	"SwarmReconcilePanics": {
		firing: []scenario{
			{reason: "it happens for the first time", pendingAt: 10 * time.Minute, series: `
				swarm_reconcile_panics_total{controller="swarm"} _x20 1x60`},
			{reason: "it happens again", pendingAt: 30 * time.Minute, series: `
				swarm_reconcile_panics_total{controller="swarm"} 0x59 1x60`},
		},
		silent: []scenario{
			{reason: "nothing of the kind happens", series: `
				swarm_reconcile_panics_total{controller="swarm"} 0x240`},
			{reason: "it was long ago, though Prometheus was away meanwhile", endsAt: 20 * time.Minute, series: `
				swarm_reconcile_panics_total{controller="swarm"} 3x60 _x40 3x140`},
		},
	},
	"SwarmReconcileNeedsHelp": {
		firing: []scenario{{reason: "an object is given up", pendingAt: 10 * time.Minute, series: `
				controller_runtime_terminal_reconcile_errors_total{job="swarm-operator-metrics",controller="workerpool"} 0x19 1x240`}},
		silent: []scenario{
			{reason: "none is", series: `
				controller_runtime_terminal_reconcile_errors_total{job="swarm-operator-metrics",controller="workerpool"} 0x240`},
			{reason: "that was more than an hour ago", endsAt: 75 * time.Minute, series: `
				controller_runtime_terminal_reconcile_errors_total{job="swarm-operator-metrics",controller="workerpool"} 0x19 1x240`},
		},
	},
	"SwarmPoolWebhookDown": {
		firing: []scenario{
			{reason: "a StatefulSet tries in vain, less and less often", pendingAt: 5 * time.Minute, series: `
				apiserver_admission_webhook_rejection_count{name="pods.swarm.io",error_type="calling_webhook_error",rejection_code="503"} _x10 12 13 13 14 14 15x10 16x21 17x40`},
			{reason: "the operator itself fails", pendingAt: 30 * time.Second, series: `
				apiserver_admission_webhook_rejection_count{name="pods.swarm.io",error_type="no_error",rejection_code="500"} 0+1x240`},
		},
		silent: []scenario{
			{reason: "it was away for a minute", series: `
				apiserver_admission_webhook_rejection_count{name="pods.swarm.io",error_type="calling_webhook_error",rejection_code="503"} _x10 10 11 12x240`},
			{reason: "pods are refused for what they are", series: `
				apiserver_admission_webhook_rejection_count{name="pods.swarm.io",error_type="no_error",rejection_code="403"} 0+1x240`},
			{reason: "another operator's webhook is down", series: `
				apiserver_admission_webhook_rejection_count{name="pods.example.com",error_type="calling_webhook_error",rejection_code="503"} 0+1x240`},
		},
	},
	"SwarmSpreadWebhookDown": {
		firing: []scenario{
			{reason: "pods are made without an answer", pendingAt: 5 * time.Minute, series: `
				apiserver_admission_webhook_fail_open_count{name="spread.swarm.io",type="admit"} _x10 1+1x60`},
			{reason: "it happens again, at another API server", pendingAt: 30 * time.Minute, series: `
				apiserver_admission_webhook_fail_open_count{name="spread.swarm.io",type="admit",instance="a"} 5x240
				apiserver_admission_webhook_fail_open_count{name="spread.swarm.io",type="admit",instance="b"} _x60 1+1x60`},
		},
		silent: []scenario{
			{reason: "it was away for a minute", series: `
				apiserver_admission_webhook_fail_open_count{name="spread.swarm.io",type="admit"} _x10 1 2 3x240`},
			{reason: "it was long ago, though Prometheus was away meanwhile", series: `
				apiserver_admission_webhook_fail_open_count{name="spread.swarm.io",type="admit"} 5x60 _x40 5x140`},
		},
	},
	"SwarmWebhookErrors": {
		firing: []scenario{{reason: "one answer of ten is a failure", pendingAt: evaluationInterval, series: `
				swarm_webhook_request_duration_seconds_count{webhook="spread",outcome="failed"} 0+1x240
				swarm_webhook_request_duration_seconds_count{webhook="spread",outcome="passed"} 0x240
				swarm_webhook_request_duration_seconds_count{webhook="spread",outcome="placed"} 0+9x240`}},
		silent: []scenario{
			{reason: "one of a hundred is", series: `
				swarm_webhook_request_duration_seconds_count{webhook="spread",outcome="failed"} 0+1x240
				swarm_webhook_request_duration_seconds_count{webhook="spread",outcome="passed"} 0+50x240
				swarm_webhook_request_duration_seconds_count{webhook="spread",outcome="placed"} 0+49x240`},
			{reason: "no requests", series: `
				swarm_webhook_request_duration_seconds_count{webhook="spread",outcome="failed"} 0x240
				swarm_webhook_request_duration_seconds_count{webhook="spread",outcome="passed"} 0x240
				swarm_webhook_request_duration_seconds_count{webhook="spread",outcome="placed"} 0x240`},
		},
	},
	"SwarmWebhookSlow": {
		firing: []scenario{{reason: "one answer of ten takes more than 200 ms", pendingAt: evaluationInterval, series: `
				swarm_webhook_request_duration_seconds_bucket{webhook="spread",outcome="placed",le="0.2"} 0+90x240
				swarm_webhook_request_duration_seconds_bucket{webhook="spread",outcome="placed",le="0.3"} 0+100x240
				swarm_webhook_request_duration_seconds_bucket{webhook="spread",outcome="placed",le="+Inf"} 0+100x240`}},
		silent: []scenario{
			{reason: "one of a thousand does", series: `
				swarm_webhook_request_duration_seconds_bucket{webhook="spread",outcome="placed",le="0.1"} 0+995x240
				swarm_webhook_request_duration_seconds_bucket{webhook="spread",outcome="placed",le="0.2"} 0+999x240
				swarm_webhook_request_duration_seconds_bucket{webhook="spread",outcome="placed",le="+Inf"} 0+1000x240`},
			{reason: "no requests", series: `
				swarm_webhook_request_duration_seconds_bucket{webhook="spread",outcome="placed",le="0.2"} 0x240
				swarm_webhook_request_duration_seconds_bucket{webhook="spread",outcome="placed",le="+Inf"} 0x240`},
		},
	},
	"SwarmPlacementEstimated": {
		firing: []scenario{{reason: "one of five places is an estimate", pendingAt: evaluationInterval, series: `
				swarm_placement_answers_total{by="leader"} 0+4x240
				swarm_placement_answers_total{by="estimate"} 0+1x240`}},
		silent: []scenario{
			{reason: "the leader gives them", series: `
				swarm_placement_answers_total{by="leader"} 0+4x240`},
			{reason: "the leader was away for a minute", series: `
				swarm_placement_answers_total{by="leader"} 0+4x240
				swarm_placement_answers_total{by="estimate"} 0x19 4 8x240`},
		},
	},
	"SwarmSpotUnavailable": workloadStatusScenarios("SpotUnavailable"),
	"SwarmSpreadBlocked":   workloadStatusScenarios("BlockedByPDB"),
	"SwarmSpreadInvalid": {
		firing: []scenario{{reason: "a workload is so", pendingAt: 5 * time.Minute, series: `
				swarm_spread_workloads{status="Invalid"} 0x9 1x240
				swarm_spread_workloads{status="Balanced"} 9x240`}},
		silent: []scenario{
			{reason: "all are balanced", series: `
				swarm_spread_workloads{status="Invalid"} 0x240
				swarm_spread_workloads{status="Balanced"} 9x240`},
			{reason: "it is corrected after five minutes", series: `
				swarm_spread_workloads{status="Invalid"} 0x9 1x9 0x240`},
		},
	},
	"SwarmTasksStuck": {
		firing: []scenario{
			{reason: "no agent takes them", pendingAt: 5 * time.Minute, series: `
				swarm_task_unfinished{state="waiting"} 0x9 3x240
				swarm_task_unfinished{state="running"} 0x240
				swarm_task_wait_seconds_count 7x240`},
			{reason: "no agent takes them, and there is a new leader", pendingAt: 0, series: `
				swarm_task_unfinished{state="waiting",pod="a"} 3x19 stale
				swarm_task_unfinished{state="running",pod="a"} 0x19 stale
				swarm_task_unfinished{state="waiting",pod="b"} _x24 3x200
				swarm_task_unfinished{state="running",pod="b"} _x24 0x200
				swarm_task_wait_seconds_count{pod="b"} 0x240`},
		},
		silent: []scenario{
			{reason: "others are being worked on", series: `
				swarm_task_unfinished{state="waiting"} 3x240
				swarm_task_unfinished{state="running"} 2x240
				swarm_task_wait_seconds_count 7x240`},
			{reason: "each is taken soon and ends before anybody looks", series: `
				swarm_task_unfinished{state="waiting"} 1x240
				swarm_task_unfinished{state="running"} 0x240
				swarm_task_wait_seconds_count 0+1x240`},
			{reason: "there are none", series: `
				swarm_task_unfinished{state="waiting"} 0x240
				swarm_task_unfinished{state="running"} 0x240
				swarm_task_wait_seconds_count 7x240`},
		},
	},
	"SwarmTasksWaitLong": {
		firing: []scenario{{reason: "half of them wait for more than five minutes, and up to twenty", pendingAt: evaluationInterval, series: `
				swarm_task_wait_seconds_bucket{le="327.68"} 0+5x240
				swarm_task_wait_seconds_bucket{le="1310.72"} 0+10x240
				swarm_task_wait_seconds_bucket{le="+Inf"} 0+10x240`}},
		silent: []scenario{
			{reason: "they wait for seconds", series: `
				swarm_task_wait_seconds_bucket{le="5.12"} 0+10x240
				swarm_task_wait_seconds_bucket{le="+Inf"} 0+10x240`},
			{reason: "there are none", series: `
				swarm_task_wait_seconds_bucket{le="5.12"} 0x240
				swarm_task_wait_seconds_bucket{le="+Inf"} 0x240`},
		},
	},
}

// workloadStatusScenarios has the stories of a workload status that is normal as long as it passes.
func workloadStatusScenarios(status string) alertScenarios {
	series := func(pod, values string) string {
		return "\n" + `swarm_spread_workloads{status="` + status + `",pod="` + pod + `"} ` + values
	}
	return alertScenarios{
		firing: []scenario{
			{reason: "workloads stay so", pendingAt: 5 * time.Minute, series: series("a", "0x9 2x240")},
			{reason: "they stay so, and there is a new leader", pendingAt: 0, series: series("a", "2x59 stale") + series("b", "_x64 2x200")},
		},
		silent: []scenario{
			{reason: "no workload is so", series: series("a", "0x240")},
			{reason: "it passes after fifty minutes", series: series("a", "0x9 2x99 0x140")},
		},
	}
}
