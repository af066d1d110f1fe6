package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
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

	settings    snapshot.Settings
	workloads   []workloads.Workload
	pods        map[workloads.Key][]*corev1.Pod
	nodes       map[string]snapshot.Node
	nodeObjects map[string]*corev1.Node
	budgets     map[string][]*policyv1.PodDisruptionBudget
}

// readState reads everything at once, of one namespace or, with "", of all.
func (c cluster) readState(ctx context.Context, settings snapshot.Settings, namespace string) (*clusterState, error) {
	deployments, statefulSets, pods := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.PodList{}
	budgets, nodes := &policyv1.PodDisruptionBudgetList{}, &corev1.NodeList{}
	for _, list := range []client.ObjectList{deployments, statefulSets, pods, budgets} {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list %s: %w", plural(list), err)
		}
	}
	if err := c.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	state := &clusterState{
		cluster: c, settings: settings,
		pods: map[workloads.Key][]*corev1.Pod{}, nodes: map[string]snapshot.Node{}, nodeObjects: map[string]*corev1.Node{},
		budgets: map[string][]*policyv1.PodDisruptionBudget{},
	}
	for n := range deployments.Items {
		state.workloads = append(state.workloads, workloads.Deployment(&deployments.Items[n]))
	}
	for n := range statefulSets.Items {
		state.workloads = append(state.workloads, workloads.StatefulSet(&statefulSets.Items[n]))
	}
	state.index(pods.Items, budgets.Items, nodes.Items)
	return state, nil
}

func plural(list client.ObjectList) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1."), "List")) + "s"
}

// index indexes what was read.
func (s *clusterState) index(pods []corev1.Pod, budgets []policyv1.PodDisruptionBudget, nodes []corev1.Node) {
	for n := range pods {
		if owner, ok := workloads.OwnerOf(&pods[n]); ok {
			s.pods[owner] = append(s.pods[owner], &pods[n])
		}
	}
	for n := range budgets {
		s.budgets[budgets[n].Namespace] = append(s.budgets[budgets[n].Namespace], &budgets[n])
	}
	for n := range nodes {
		s.nodes[nodes[n].Name], s.nodeObjects[nodes[n].Name] = s.settings.Node(&nodes[n]), &nodes[n]
	}
	slices.SortFunc(s.workloads, func(a, b workloads.Workload) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Kind, b.Key.Kind), cmp.Compare(a.Key.Name, b.Key.Name))
	})
}

// snapshot converts a workload for the engine. It lacks what only the operator remembers.
func (s *clusterState) snapshot(ctx context.Context, workload workloads.Workload, policy snapshot.Spec, session *session) (split.Snapshot,
	error) {
	return s.settings.Snapshot(snapshot.Objects{
		Workload: workload, Spec: policy, Pods: s.pods[workload.Key], Nodes: s.nodes, Budgets: s.budgets[workload.Key.Namespace],
		Volumes: func(pod *corev1.Pod) ([]*corev1.PersistentVolume, error) { return s.volumes(ctx, pod) }, Now: session.now(),
	})
}

// volumes returns those that the claims of a pod are bound to.
func (s *clusterState) volumes(ctx context.Context, pod *corev1.Pod) ([]*corev1.PersistentVolume, error) {
	var all []*corev1.PersistentVolume
	for _, podVolume := range pod.Spec.Volumes {
		if podVolume.PersistentVolumeClaim == nil {
			continue
		}
		claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
		if err := s.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: podVolume.PersistentVolumeClaim.ClaimName}, claim); err != nil {
			return nil, fmt.Errorf("read the claim of pod %q: %w", pod.Name, err)
		}
		if claim.Spec.VolumeName == "" {
			continue
		}
		if err := s.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
			return nil, fmt.Errorf("read the volume of pod %q: %w", pod.Name, err)
		}
		all = append(all, volume)
	}
	return all, nil
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
