package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/plan"
	spreadsnapshot "github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

// newPodName stands for the name of a pod that only its ReplicaSet will choose.
const newPodName = "(new)"

// spreadChange holds the requested changes, as the user wrote them; "" for no change.
type spreadChange struct {
	replicas              int
	minOnDemand, spotPart string
}

func (s *session) planSpreadCommand() *cobra.Command {
	change, settings := spreadChange{}, &spreadFlags{}
	command := &cobra.Command{
		Use: "spread WORKLOAD", Short: "Show which pods of a workload would move between spot and on-demand nodes",
		Long: `Show which pods of a workload would move between spot and on-demand nodes, without moving them.

It plans as the operator does, step by step, and takes every replacement for Ready where it belongs. Nothing is written.
Without flags it shows what the operator is about to do.`,
		Example: `  kubectl swarm plan spread deployment/web
  kubectl swarm plan spread web --spot-percentage 80 --min-on-demand 2
  kubectl swarm plan spread statefulset/db --replicas 12 -o json`,
		Args: oneWorkload,
	}
	flags := command.Flags()
	flags.IntVar(&change.replicas, "replicas", -1, "`number` of replicas; default: the current replicas of the workload")
	flags.StringVar(&change.spotPart, "spot-percentage", "", "`share` wanted on spot nodes; default: the setting of the workload")
	flags.StringVar(&change.minOnDemand, "min-on-demand", "", "`number` that stays on on-demand nodes; default: the setting of the workload")
	settings.add(flags)
	output := s.addOutputFlag(command, formatJSON, formatYAML)
	command.RunE = func(command *cobra.Command, arguments []string) error {
		spreadSettings, err := settings.settings()
		if err != nil {
			return usageErrorf(command, "%w", err)
		}
		if command.Flags().Changed("replicas") && (change.replicas < 0 || change.replicas > maxReplicas) {
			return usageErrorf(command, "--replicas %d is not from 0 to %d", change.replicas, maxReplicas)
		}
		return s.planSpread(command.Context(), arguments[0], spreadSettings, change, output)
	}
	return command
}

// oneWorkload requires one workload.
func oneWorkload(command *cobra.Command, arguments []string) error {
	switch len(arguments) {
	case 0:
		return usageErrorf(command, "name a workload, such as deployment/web")
	case 1:
		return nil
	}
	return usageErrorf(command, "name one workload, not %d", len(arguments))
}

func (s *session) planSpread(ctx context.Context, name string, settings spreadsnapshot.Settings, change spreadChange,
	output *outputFlag) error {
	at, err := s.open()
	if err != nil {
		return err
	}
	now := s.now()
	state, err := at.readState(ctx, settings, at.namespace, now)
	if err != nil {
		return err
	}
	workload, err := state.findWorkload(name)
	if err != nil {
		return err
	}
	if change.replicas >= 0 {
		workload.Replicas = change.replicas
	}
	policy, err := change.apply(settings, workload)
	if err != nil {
		return fmt.Errorf("plan %s: %w", name, err)
	}
	input, err := state.planInput(ctx, workload, policy, now)
	if err != nil {
		return err
	}
	if change.replicas >= 0 && input.Snapshot.Policy != nil {
		input.Snapshot.Pods = scalePods(input.Snapshot)
	}
	return s.printSpreadPlan(simulate(workload, input), output)
}

// apply returns what a workload would ask for after the change.
func (c spreadChange) apply(settings spreadsnapshot.Settings, workload workloads.Workload) (spreadsnapshot.Spec, error) {
	current, floor, share := settings.Spec(workload), c.minOnDemand, c.spotPart
	switch changed := floor != "" || share != ""; {
	case !changed && current.Problem != "" && current.Policy == nil:
		return current, fmt.Errorf("its setting is invalid: %s", current.Problem)
	case !changed && current.Policy == nil:
		return current, errors.New("it is not spread: say how it should be, with --spot-percentage or --min-on-demand")
	case !changed:
		return current, nil
	case current.Policy != nil:
		floor, share = cmp.Or(floor, strconv.Itoa(current.Policy.MinOnDemand)), cmp.Or(share, strconv.Itoa(current.Policy.SpotPercent))
	}
	annotations := map[string]string{}
	maps.Copy(annotations, workload.GetAnnotations())
	annotations[settings.Key(v1alpha1.SpreadMode)] = v1alpha1.SpreadEnabled
	annotations[settings.Key(v1alpha1.SpreadMinOnDemand)], annotations[settings.Key(v1alpha1.SpreadSpotPercentage)] = floor, share
	workload.Object = &metav1.ObjectMeta{Annotations: annotations}
	after := settings.Spec(workload)
	if after.Problem != "" {
		return after, errors.New(after.Problem)
	}
	return after, nil
}

// scalePods returns the pods after scaling: the highest numbers are gone, and new ones are Ready where they belong.
func scalePods(snapshot split.Snapshot) []split.Pod {
	used := make([]bool, snapshot.Replicas)
	pods := slices.DeleteFunc(slices.Clone(snapshot.Pods), func(pod split.Pod) bool {
		return pod.Number >= snapshot.Replicas || pod.Phase == split.Terminating
	})
	slices.SortStableFunc(pods, func(a, b split.Pod) int {
		return cmp.Compare(uint(a.Number),
			uint(b.Number))
	}) // those without a number come last
	pods = pods[:min(len(pods), snapshot.Replicas)]
	for _, pod := range pods {
		if pod.Number != split.Unnumbered {
			used[pod.Number] = true
		}
	}
	for number := range used {
		if !used[number] && len(pods) < snapshot.Replicas {
			class := split.Of(*snapshot.Policy, number)
			pods = append(pods, split.Pod{Name: newPodName, Number: number, TemplateHash: replicaSetOf(snapshot.Pods), AssignedClass: class,
				NodeClass: class, Phase: split.Ready, Created: snapshot.Now.Add(-snapshot.Cooldown)})
		}
	}
	return pods
}

// replicaSetOf returns the ReplicaSet of a workload's pods.
func replicaSetOf(pods []split.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	return pods[0].TemplateHash
}

// spreadPlan predicts what would happen to a workload.
type spreadPlan struct {
	Workload string       `json:"workload"`
	Replicas int          `json:"replicas"`
	Policy   string       `json:"policy"`
	Wanted   string       `json:"wanted"`
	Actual   string       `json:"actual"`
	Status   split.Status `json:"status"`
	Reason   string       `json:"reason"`
	Problem  string       `json:"problem,omitempty"`
	Steps    [][]podMove  `json:"steps"`
}

// podMove is a pod that is replaced by one with the same number elsewhere.
type podMove struct {
	Pod    string      `json:"pod"`
	Number int         `json:"number"`
	Verb   split.Verb  `json:"verb"`
	From   split.Class `json:"from"`
	To     split.Class `json:"to"`
	Reason string      `json:"reason"`
}

// Bounds of the simulation, should it not end by itself: windows open and close forever.
const (
	maxSteps = 1000
	maxWaits = 100 // in a row
)

// simulate carries out one plan after the other until nothing is left to do.
func simulate(workload workloads.Workload, input plan.Input) spreadPlan {
	now := input.Snapshot.Now
	current := plan.New(input, now)
	result := newSpreadPlan(workload, current)
	for waits := 0; len(result.Steps) < maxSteps && waits < maxWaits; current = plan.New(input, now) {
		input.Remember(current)
		switch {
		case len(current.Moves) > 0:
			result.Steps, waits = append(result.Steps, newPodMoves(current.Moves)), 0
			input.Snapshot.Pods, input.Snapshot.LastMove = movePods(input.Snapshot.Pods, current.Moves, now), now
			now = now.Add(input.Snapshot.Cooldown + time.Second)
		case !current.RecheckAt.After(now):
			return result
		default:
			now, waits = current.RecheckAt, waits+1
		}
	}
	return result
}

// newSpreadPlan returns a plan without steps.
func newSpreadPlan(workload workloads.Workload, first plan.Plan) spreadPlan {
	result := spreadPlan{
		Workload: workload.Key.String(), Replicas: workload.Replicas, Wanted: first.Decision.Desired.String(),
		Actual: first.Decision.Current.String(), Status: first.Decision.Status, Reason: first.Decision.Reason, Problem: first.Problem,
		Steps: [][]podMove{},
	}
	if first.Policy != nil {
		result.Policy = first.Policy.String()
	}
	return result
}

func newPodMoves(moves []split.Move) []podMove {
	result := make([]podMove, len(moves))
	for n, move := range moves {
		result[n] = podMove{move.Pod, move.Number, move.Verb, move.From, move.To, move.Reason}
	}
	return result
}

// movePods returns the pods after their replacements have come up where they belong.
func movePods(pods []split.Pod, moves []split.Move, now time.Time) []split.Pod {
	pods = slices.Clone(pods)
	for _, move := range moves {
		at := slices.IndexFunc(pods, func(pod split.Pod) bool { return pod.Name == move.Pod })
		pods[at] = split.Pod{Name: move.Pod, Number: move.Number, TemplateHash: pods[at].TemplateHash, AssignedClass: move.To, NodeClass: move.To,
			Phase: split.Ready, Created: now}
	}
	return pods
}

func (s *session) printSpreadPlan(plan spreadPlan, output *outputFlag) error {
	if done, err := output.writeData(s.Out, plan); done {
		return err
	}
	p, total := s.newPrinter(), 0
	for _, step := range plan.Steps {
		total += len(step)
	}
	p.line("%s, %s, %s", plan.Workload, count(plan.Replicas, "replica"), plan.Policy)
	p.line("wanted %s, actual %s: %s to move", plan.Wanted, plan.Actual, count(total, "pod"))
	p.line("now %s: %s", plan.Status, plan.Reason)
	if plan.Problem != "" {
		p.line("to correct: %s", plan.Problem)
	}
	for n, step := range plan.Steps {
		p.line("\nstep %d", n+1)
		var rows [][]cell
		for _, move := range step {
			rows = append(rows, []cell{cellOf(move.Pod), cellOf(move.Number), cellOf(move.Verb), cellOf(move.From), cellOf(move.To),
				cellOf(move.Reason)})
		}
		p.table([]string{"POD", "NUMBER", "HOW", "FROM", "TO", "WHY"}, rows)
	}
	return nil
}
