// Package alerts has the tests of the alerts in deploy/kustomize/components/monitoring. The rule engine of Prometheus
// itself evaluates them, over series that are written down beside the expected alerts.
//
// It is a separate module, so that Prometheus is not in the module graph of users of this project. The tools of the module are the programs
// that test/e2e/monitoring runs.
package alerts
