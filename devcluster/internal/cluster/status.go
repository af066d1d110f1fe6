package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status is the current state of the cluster.
type Status struct {
	Data       string      `json:"data"`
	Server     string      `json:"server"`
	Kubeconfig string      `json:"kubeconfig"`
	Nodes      string      `json:"nodes"`
	Healthy    bool        `json:"healthy"` // every component runs
	Components []Component `json:"components"`
}

// Status reads the process table, and asks the API for the nodes.
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	status := Status{Data: c.Data, Server: c.Server(), Kubeconfig: c.Kubeconfig(), Nodes: c.nodes(ctx)}
	var err error
	status.Components, err = c.Components()
	status.Healthy = len(status.Components) > 0 && !slices.ContainsFunc(status.Components,
		func(component Component) bool { return component.State != Running })
	return status, err
}

// nodes waits longer than the API server waits for its own cache, which is 3 s, before it asks etcd.
func (c *Cluster) nodes(ctx context.Context) string {
	client, err := c.client()
	if err != nil {
		return "unknown: " + err.Error()
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	found, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Sprintf("unknown: the API server does not answer: %v", err)
	}
	return readiness(found.Items, c.Options.RealNodes+c.Options.SimulatedNodes)
}

// readiness is how many of the nodes are Ready, as kubectl counts them, and what the others say.
func readiness(nodes []corev1.Node, wanted int) string {
	var count int
	var others strings.Builder
	for n := range nodes {
		if saysReady(&nodes[n]) {
			count++
			continue
		}
		said := "it has not reported yet"
		for _, condition := range nodes[n].Status.Conditions {
			if condition.Type == corev1.NodeReady {
				said = strings.Join(strings.Fields(condition.Reason+": "+condition.Message), " ")
			}
		}
		fmt.Fprintf(&others, "; not %s: %s", nodes[n].Name, said)
	}
	return fmt.Sprintf("%d of %d Ready%s", count, wanted, others.String())
}
