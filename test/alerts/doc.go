// Package alerts contains only the tests of the alerts in deploy/kustomize/components/monitoring. The rule engine of Prometheus evaluates
// them over the series of each test.
//
// It is a separate module, so that Prometheus is not in the module graph of users of this project.
package alerts
