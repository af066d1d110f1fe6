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
	"github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// spreadChange holds the requested changes, as the user wrote them; "" for no change.
type spreadChange struct {
	replicas              int
	minOnDemand, spotPart string
}

func (s *session) planSpreadCommand() *cobra.Command {
	change, settings := spreadChange{}, &spreadFlags{}
	command := &cobra.Command{
		Use: "spread WORKLOAD", Short: "Say which pods of a workload would move between spot and on-demand nodes, before they do",
		Long: `Say which pods of a workload would move between spot and on-demand nodes, before they do.

It asks the engine that the operator asks, step by step, and takes every replacement for Ready where it belongs. Nothing is written.
Without a flag it says what the operator is about to do.`,
		Example: `  kubectl swarm plan spread deployment/web
  kubectl swarm plan spread web --spot-percentage 80 --min-on-demand 2
  kubectl swarm plan spread statefulset/db --replicas 12 -o json`,
		Args: oneWorkload,
	}
	flags := command.Flags()
	flags.IntVar(&change.replicas, "replicas", -1, "`number` of replicas; left out: as many as there shall be")
	flags.StringVar(&change.spotPart, "spot-percentage", "", "`share` wanted on spot nodes; left out: the workload's")
	flags.StringVar(&change.minOnDemand, "min-on-demand", "", "`number` that stays on on-demand nodes; left out: the workload's")
	settings.add(flags)
	form := s.formFlag(command, asJSON, asYAML)
	command.RunE = func(command *cobra.Command, arguments []string) error {
		chosen, err := settings.settings()
		if err != nil {
			return misused(command, "%w", err)
		}
		if command.Flags().Changed("replicas") && (change.replicas < 0 || change.replicas > mostReplicas) {
			return misused(command, "--replicas %d is not from 0 to %d", change.replicas, mostReplicas)
		}
		return s.planSpread(command.Context(), arguments[0], chosen, change, form)
	}
	return command
}

// oneWorkload requires one workload.
func oneWorkload(command *cobra.Command, arguments []string) error {
	switch len(arguments) {
	case 0:
		return misused(command, "name a workload, such as deployment/web")
	case 1:
		return nil
	}
	return misused(command, "name one workload, not %d", len(arguments))
}

func (s *session) planSpread(ctx context.Context, name string, settings survey.Settings, change spreadChange, form *form) error {
	at, err := s.open()
	if err != nil {
		return err
	}
	found, err := at.scenery(ctx, settings, at.namespace)
	if err != nil {
		return err
	}
	workload, err := found.named(name)
	if err != nil {
		return err
	}
	if change.replicas >= 0 {
		workload.Replicas = change.replicas
	}
	wish, err := change.wish(settings, workload)
	if err != nil {
		return fmt.Errorf("plan %s: %w", name, err)
	}
	world, err := found.world(ctx, workload, wish, s)
	if err != nil {
		return err
	}
	if change.replicas >= 0 {
		world.Pods = scaled(world)
	}
	return s.foretellSpread(outlookOf(workload, world), form)
}

// wish returns what a workload would ask for after the change.
func (c spreadChange) wish(settings survey.Settings, workload survey.Workload) (survey.Wish, error) {
	now, floor, share := settings.Wish(workload), c.minOnDemand, c.spotPart
	switch changed := floor != "" || share != ""; {
	case !changed && now.Problem != "":
		return now, fmt.Errorf("its setting is invalid: %s", now.Problem)
	case !changed && now.Policy == nil:
		return now, errors.New("it is not spread: say how it should be, with --spot-percentage or --min-on-demand")
	case !changed:
		return now, nil
	case now.Policy != nil:
		floor, share = cmp.Or(floor, strconv.Itoa(now.Policy.MinOnDemand)), cmp.Or(share, strconv.Itoa(now.Policy.SpotPercent))
	}
	said := map[string]string{}
	maps.Copy(said, workload.GetAnnotations())
	said[settings.Key(v1alpha1.SpreadMode)] = v1alpha1.SpreadEnabled
	said[settings.Key(v1alpha1.SpreadMinOnDemand)], said[settings.Key(v1alpha1.SpreadSpotPercentage)] = floor, share
	workload.Object = &metav1.ObjectMeta{Annotations: said}
	after := settings.Wish(workload)
	if after.Problem != "" {
		return after, errors.New(after.Problem)
	}
	return after, nil
}

// scaled returns the pods after scaling: the highest numbers are gone, and new ones are Ready where they belong.
func scaled(world spread.World) []spread.Pod {
	held := make([]bool, world.Replicas)
	pods := slices.DeleteFunc(slices.Clone(world.Pods), func(pod spread.Pod) bool { return pod.Number >= world.Replicas || pod.Phase == spread.Terminating })
	slices.SortStableFunc(pods, func(a, b spread.Pod) int { return cmp.Compare(uint(a.Number), uint(b.Number)) }) // those without a number come last
	pods = pods[:min(len(pods), world.Replicas)]
	for _, pod := range pods {
		if pod.Number != spread.Unnumbered {
			held[pod.Number] = true
		}
	}
	for number := range held {
		if !held[number] && len(pods) < world.Replicas {
			class := spread.Of(*world.Policy, number)
			pods = append(pods, spread.Pod{Name: newcomer, Number: number, Set: setOf(world.Pods), Made: class, Node: class, Phase: spread.Ready, Created: world.Now.Add(-world.Cooldown)})
		}
	}
	return pods
}

// setOf returns the ReplicaSet of a workload's pods.
func setOf(pods []spread.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	return pods[0].Set
}

// outlook predicts what would happen to a workload.
type outlook struct {
	Workload string       `json:"workload"`
	Replicas int          `json:"replicas"`
	Policy   string       `json:"policy"`
	Wanted   string       `json:"wanted"`
	Actual   string       `json:"actual"`
	Word     spread.Word  `json:"status"`
	Reason   string       `json:"reason"`
	Steps    [][]movement `json:"steps"`
}

// movement is a pod that is replaced by one with the same number elsewhere.
type movement struct {
	Pod    string       `json:"pod"`
	Number int          `json:"number"`
	Verb   spread.Verb  `json:"verb"`
	From   spread.Class `json:"from"`
	To     spread.Class `json:"to"`
	Reason string       `json:"reason"`
}

// mostSteps bounds the simulation, should it not end by itself.
const mostSteps = 1000

// outlookOf plays the engine's moves until it makes none.
func outlookOf(workload survey.Workload, world spread.World) outlook {
	first := spread.Next(world)
	seen := outlook{
		Workload: workload.Key.String(), Replicas: world.Replicas, Policy: world.Policy.String(),
		Wanted: first.Desired.String(), Actual: first.Current.String(), Word: first.Word, Reason: first.Reason, Steps: [][]movement{},
	}
	for decision := first; len(seen.Steps) < mostSteps; decision = spread.Next(world) {
		if len(decision.Moves) > 0 {
			seen.Steps = append(seen.Steps, movements(decision.Moves))
			world.Pods = replaced(world, decision.Moves)
		} else if !world.Now.Before(decision.Again) {
			return seen
		}
		world.Now = later(world, decision)
	}
	return seen
}

// later returns when the engine decides next: after the cooldown, or when it wants to.
func later(world spread.World, decision spread.Decision) time.Time {
	if len(decision.Moves) > 0 {
		return world.Now.Add(world.Cooldown + time.Second)
	}
	return decision.Again.Add(time.Second)
}

func movements(moves []spread.Move) []movement {
	all := make([]movement, len(moves))
	for n, move := range moves {
		all[n] = movement{move.Pod, move.Number, move.Verb, move.From, move.To, move.Reason}
	}
	return all
}

// replaced returns the pods after their replacements have come up where they belong.
func replaced(world spread.World, moves []spread.Move) []spread.Pod {
	pods := slices.Clone(world.Pods)
	for _, move := range moves {
		at := slices.IndexFunc(pods, func(pod spread.Pod) bool { return pod.Name == move.Pod })
		pods[at] = spread.Pod{Name: move.Pod, Number: move.Number, Set: pods[at].Set, Made: move.To, Node: move.To, Phase: spread.Ready, Created: world.Now}
	}
	return pods
}

func (s *session) foretellSpread(seen outlook, form *form) error {
	if done, err := form.data(s.Out, seen); done {
		return err
	}
	p, total := s.page(), 0
	for _, step := range seen.Steps {
		total += len(step)
	}
	p.line("%s, %s, %s", seen.Workload, count(seen.Replicas, "replica"), seen.Policy)
	p.line("wanted %s, actual %s: %s to move", seen.Wanted, seen.Actual, count(total, "pod"))
	p.line("now %s: %s", seen.Word, seen.Reason)
	for n, step := range seen.Steps {
		p.line("\nstep %d", n+1)
		var rows [][]cell
		for _, move := range step {
			rows = append(rows, []cell{in(move.Pod), in(move.Number), in(move.Verb), in(move.From), in(move.To), in(move.Reason)})
		}
		p.table([]string{"POD", "NUMBER", "HOW", "FROM", "TO", "WHY"}, rows)
	}
	return nil
}
