package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/plan"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/state"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

// spreadFlags are the settings that an operator may have instead of the standard ones.
type spreadFlags struct{ prefix, spot, onDemand string }

func (f *spreadFlags) add(flags *pflag.FlagSet) {
	standard := snapshot.DefaultSettings()
	flags.StringVar(&f.prefix, "annotation-prefix", standard.Prefix, "`prefix` of the annotations, as spread.annotationPrefix of the operator")
	flags.StringVar(&f.spot, "spot-label", formatLabels(standard.Spot), "`key=value` of spot nodes, as nodeLabels.spot of the operator")
	flags.StringVar(&f.onDemand, "on-demand-label", formatLabels(standard.OnDemand),
		"`key=value` of on-demand nodes, as nodeLabels.onDemand of the operator")
}

func formatLabels(labels []snapshot.Label) string {
	return strings.Join(namesOf(labels, func(l snapshot.Label) string { return l.Key + "=" + l.Value }), ",")
}

// settings returns the standard settings, overridden by the flags.
func (f *spreadFlags) settings() (snapshot.Settings, error) {
	settings := snapshot.DefaultSettings()
	settings.Prefix = f.prefix
	var problems [2]error
	settings.Spot, problems[0] = snapshot.ParseLabels(f.spot)
	settings.OnDemand, problems[1] = snapshot.ParseLabels(f.onDemand)
	return settings, errors.Join(problems[:]...)
}

// clusterState is the state of a cluster: spread workloads, and the objects around them.
type clusterState struct {
	cluster

	reader      state.Reader
	settings    snapshot.Settings
	workloads   []workloads.Workload
	pods        map[workloads.Key][]*corev1.Pod
	nodes       state.Nodes
	nodeObjects map[string]*corev1.Node
	budgets     map[string][]*policyv1.PodDisruptionBudget
}

// readState reads everything at once, of one namespace or, with "", of all.
func (c cluster) readState(ctx context.Context, settings snapshot.Settings, namespace string, now time.Time) (*clusterState, error) {
	deployments, statefulSets, pods, nodes := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.PodList{}, &corev1.NodeList{}
	for _, list := range []client.ObjectList{deployments, statefulSets, pods} {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list %s: %w", plural(list), err)
		}
	}
	if err := c.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	s := &clusterState{
		cluster: c, settings: settings, reader: state.Reader{Reader: c, Settings: settings, Windows: map[string]string{}},
		pods: map[workloads.Key][]*corev1.Pod{}, nodes: state.NewNodes(settings, nodes.Items, now), nodeObjects: map[string]*corev1.Node{},
		budgets: map[string][]*policyv1.PodDisruptionBudget{},
	}
	budgets, err := s.reader.Budgets(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for n := range deployments.Items {
		s.workloads = append(s.workloads, workloads.Deployment(&deployments.Items[n]))
	}
	for n := range statefulSets.Items {
		s.workloads = append(s.workloads, workloads.StatefulSet(&statefulSets.Items[n]))
	}
	s.index(pods.Items, budgets, nodes.Items)
	return s, nil
}

func plural(list client.ObjectList) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1."), "List")) + "s"
}

// index indexes what was read.
func (s *clusterState) index(pods []corev1.Pod, budgets []*policyv1.PodDisruptionBudget, nodes []corev1.Node) {
	for n := range pods {
		if owner, ok := workloads.OwnerOf(&pods[n]); ok {
			s.pods[owner] = append(s.pods[owner], &pods[n])
		}
	}
	for _, budget := range budgets {
		s.budgets[budget.Namespace] = append(s.budgets[budget.Namespace], budget)
	}
	for n := range nodes {
		s.nodeObjects[nodes[n].Name] = &nodes[n]
	}
	slices.SortFunc(s.workloads, func(a, b workloads.Workload) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Kind, b.Key.Kind), cmp.Compare(a.Key.Name, b.Key.Name))
	})
}

// planInput reads what the plan of a workload depends on, as an operator that has just started and whose admission sees every pod.
func (s *clusterState) planInput(ctx context.Context, workload workloads.Workload, spec snapshot.Spec, now time.Time) (plan.Input, error) {
	return s.reader.Input(ctx, snapshot.Objects{
		Workload: workload, Spec: spec, Pods: s.pods[workload.Key], Nodes: s.nodes.ByName, Budgets: s.budgets[workload.Key.Namespace],
		History: s.nodes.History(), Now: now,
	}, plan.Admission{Covered: true})
}

// findWorkload finds the workload of an argument such as deployment/web or sts/db.
func (s *clusterState) findWorkload(argument string) (workloads.Workload, error) {
	kind, name, hasSlash := strings.Cut(argument, "/")
	if !hasSlash {
		kind, name = "", argument
	}
	var matches []workloads.Workload
	for _, workload := range s.workloads {
		if workload.Key.Name == name && workload.Key.Namespace == s.namespace &&
			(kind == "" || slices.Contains(kindWords[workload.Key.Kind], strings.ToLower(kind))) {
			matches = append(matches, workload)
		}
	}
	switch len(matches) {
	case 0:
		return workloads.Workload{},
			fmt.Errorf("there is no Deployment or StatefulSet %q in namespace %q: kubectl swarm spread -A lists those that are spread", argument,
				s.namespace)
	case 1:
		return matches[0], nil
	}
	return workloads.Workload{}, fmt.Errorf("%q is a Deployment and a StatefulSet: write deployment/%s or statefulset/%s", name, name, name)
}

var kindWords = map[v1alpha1.WorkloadKind][]string{
	v1alpha1.WorkloadDeployment:  {"deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"},
	v1alpha1.WorkloadStatefulSet: {"statefulset", "statefulsets", "sts", "statefulset.apps", "statefulsets.apps"},
}
