// Package alerts has the tests of the alerts in deploy/kustomize/components/monitoring, and nothing else. The rule engine of Prometheus
// itself evaluates them, over series that are written down beside the expected alerts.
//
// It is a module of its own, so that Prometheus is not in the graph of modules that import us.
package alerts
