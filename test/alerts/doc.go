// Package alerts has the tests of the alerts in deploy/kustomize/components/monitoring, and nothing else. They are judged by the rule engine of
// Prometheus itself, over series that are written down beside what must come of them.
//
// It is a module of its own, so that Prometheus is not in the graph of those who import us.
package alerts
