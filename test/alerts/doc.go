// Package alerts has the tests of the alerts in deploy/kustomize/components/monitoring. The rule engine of Prometheus
// itself evaluates them, over series that are written down beside the expected alerts.
//
// It is a module of its own, so that Prometheus is not in the graph of modules that import us. The tools of the module are the programs
// that test/e2e/monitoring runs.
package alerts
