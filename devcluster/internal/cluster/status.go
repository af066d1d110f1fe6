package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Status is the cluster as it is now.
type Status struct {
	Data       string      `json:"data"`
	Server     string      `json:"server"`
	Kubeconfig string      `json:"kubeconfig"`
	Nodes      string      `json:"nodes"`
	Healthy    bool        `json:"healthy"` // every component runs
	Components []Component `json:"components"`
}

// Status looks at the process table, and asks the API for the nodes.
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	status := Status{Data: c.Data, Server: c.Server(), Kubeconfig: c.Kubeconfig(), Nodes: c.nodes(ctx)}
	var err error
	status.Components, err = c.Components()
	status.Healthy = len(status.Components) > 0 && !slices.ContainsFunc(status.Components, func(component Component) bool { return component.State != Running })
	return status, err
}

func (c *Cluster) nodes(ctx context.Context) string {
	client, err := c.client()
	if err != nil {
		return "unknown: " + err.Error()
	}
	ctx, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	count, err := readyNodes(ctx, client)
	if err != nil {
		return "unknown: the API server does not answer"
	}
	return fmt.Sprintf("%d of %d Ready", count, c.Options.RealNodes+c.Options.SimulatedNodes)
}
