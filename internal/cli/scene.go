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
	"github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// spreadFlags are the settings that an operator may have instead of the standard ones.
type spreadFlags struct{ prefix, spot, onDemand string }

func (f *spreadFlags) add(flags *pflag.FlagSet) {
	standard := survey.Standard()
	flags.StringVar(&f.prefix, "annotation-prefix", standard.Prefix, "`prefix` of the annotations, as spread.annotationPrefix of the operator")
	flags.StringVar(&f.spot, "spot-label", written(standard.Spot), "`key=value` of spot nodes, as nodeLabels.spot of the operator")
	flags.StringVar(&f.onDemand, "on-demand-label", written(standard.OnDemand), "`key=value` of on-demand nodes, as nodeLabels.onDemand of the operator")
}

func written(labels []survey.Label) string {
	return strings.Join(namesOf(labels, func(l survey.Label) string { return l.Key + "=" + l.Value }), ",")
}

// settings returns the standard settings, overridden by the flags.
func (f *spreadFlags) settings() (survey.Settings, error) {
	settings := survey.Standard()
	settings.Prefix = f.prefix
	var problems [2]error
	settings.Spot, problems[0] = survey.ParseLabels(f.spot)
	settings.OnDemand, problems[1] = survey.ParseLabels(f.onDemand)
	return settings, errors.Join(problems[:]...)
}

// scenery is the state of a cluster: spread workloads, and the objects around them.
type scenery struct {
	cluster

	settings  survey.Settings
	workloads []survey.Workload
	pods      map[survey.Key][]*corev1.Pod
	nodes     map[string]survey.Node
	machines  map[string]*corev1.Node
	budgets   map[string][]*policyv1.PodDisruptionBudget
}

// scenery reads everything at once, of one namespace or, with "", of all.
func (c cluster) scenery(ctx context.Context, settings survey.Settings, namespace string) (*scenery, error) {
	deployments, sets, pods := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.PodList{}
	budgets, nodes := &policyv1.PodDisruptionBudgetList{}, &corev1.NodeList{}
	for _, list := range []client.ObjectList{deployments, sets, pods, budgets} {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list %s: %w", plural(list), err)
		}
	}
	if err := c.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	found := &scenery{
		cluster: c, settings: settings,
		pods: map[survey.Key][]*corev1.Pod{}, nodes: map[string]survey.Node{}, machines: map[string]*corev1.Node{}, budgets: map[string][]*policyv1.PodDisruptionBudget{},
	}
	for n := range deployments.Items {
		found.workloads = append(found.workloads, survey.Deployment(&deployments.Items[n]))
	}
	for n := range sets.Items {
		found.workloads = append(found.workloads, survey.StatefulSet(&sets.Items[n]))
	}
	found.sort(pods.Items, budgets.Items, nodes.Items)
	return found, nil
}

func plural(list client.ObjectList) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1."), "List")) + "s"
}

// sort indexes what was read.
func (s *scenery) sort(pods []corev1.Pod, budgets []policyv1.PodDisruptionBudget, nodes []corev1.Node) {
	for n := range pods {
		if owner, found := survey.OwnerOf(&pods[n]); found {
			s.pods[owner] = append(s.pods[owner], &pods[n])
		}
	}
	for n := range budgets {
		s.budgets[budgets[n].Namespace] = append(s.budgets[budgets[n].Namespace], &budgets[n])
	}
	for n := range nodes {
		s.nodes[nodes[n].Name], s.machines[nodes[n].Name] = s.settings.Node(&nodes[n]), &nodes[n]
	}
	slices.SortFunc(s.workloads, func(a, b survey.Workload) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Kind, b.Key.Kind), cmp.Compare(a.Key.Name, b.Key.Name))
	})
}

// world converts a workload for the engine. It lacks what only the operator remembers.
func (s *scenery) world(ctx context.Context, workload survey.Workload, wish survey.Wish, session *session) (spread.World, error) {
	return s.settings.World(survey.Scene{
		Workload: workload, Wish: wish, Pods: s.pods[workload.Key], Nodes: s.nodes, Budgets: s.budgets[workload.Key.Namespace],
		Volumes: func(pod *corev1.Pod) ([]*corev1.PersistentVolume, error) { return s.volumes(ctx, pod) }, Now: session.now(),
	})
}

// volumes returns those that the claims of a pod are bound to.
func (s *scenery) volumes(ctx context.Context, pod *corev1.Pod) ([]*corev1.PersistentVolume, error) {
	var all []*corev1.PersistentVolume
	for _, mounted := range pod.Spec.Volumes {
		if mounted.PersistentVolumeClaim == nil {
			continue
		}
		claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
		if err := s.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: mounted.PersistentVolumeClaim.ClaimName}, claim); err != nil {
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

// named finds the workload of an argument such as deployment/web or sts/db.
func (s *scenery) named(argument string) (survey.Workload, error) {
	kind, name, slashed := strings.Cut(argument, "/")
	if !slashed {
		kind, name = "", argument
	}
	var found []survey.Workload
	for _, workload := range s.workloads {
		if workload.Key.Name == name && workload.Key.Namespace == s.namespace && (kind == "" || slices.Contains(kindWords[workload.Key.Kind], strings.ToLower(kind))) {
			found = append(found, workload)
		}
	}
	switch len(found) {
	case 0:
		return survey.Workload{}, fmt.Errorf("there is no Deployment or StatefulSet %q in namespace %q: kubectl swarm spread -A lists those that are spread", argument, s.namespace)
	case 1:
		return found[0], nil
	}
	return survey.Workload{}, fmt.Errorf("%q is a Deployment and a StatefulSet: write deployment/%s or statefulset/%s", name, name, name)
}

var kindWords = map[v1alpha1.WorkloadKind][]string{
	v1alpha1.WorkloadDeployment:  {"deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"},
	v1alpha1.WorkloadStatefulSet: {"statefulset", "statefulsets", "sts", "statefulset.apps", "statefulsets.apps"},
}
