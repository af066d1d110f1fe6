package cli

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	"github.com/swarm-io/swarm-operator/internal/pool/state"
)

// completionSource lists completions, given the pool that is on the line already, "" for none.
type completionSource func(ctx context.Context, pool string) ([]string, error)

// registerCompletion completes the value of a flag. A shell shows no errors: without an answer there are no completions.
func (s *session) registerCompletion(command *cobra.Command, flag string, source completionSource) {
	err := command.RegisterFlagCompletionFunc(flag, func(command *cobra.Command, arguments []string, _ string) ([]string,
		cobra.ShellCompDirective) {
		pool := ""
		if len(arguments) > 0 {
			pool = arguments[0]
		}
		words, _ := source(command.Context(), pool)
		return words, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // an unknown flag is a bug that every test would find
	}
}

// fixedWords is a source of fixed words.
func fixedWords(values ...string) completionSource {
	return func(context.Context, string) ([]string, error) { return values, nil }
}

// completePools completes the names of one pool or of several.
func (s *session) completePools(maxNames int) cobra.CompletionFunc {
	return func(command *cobra.Command, arguments []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(arguments) >= maxNames {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, _ := s.poolNames(command.Context())
		remaining := slices.DeleteFunc(names, func(name string) bool { return slices.Contains(arguments, name) })
		return remaining, cobra.ShellCompDirectiveNoFileComp
	}
}

func (s *session) poolNames(ctx context.Context) ([]string, error) {
	at, err := s.open()
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.WorkerPoolList{}
	err = at.List(ctx, list, client.InNamespace(at.namespace))
	return namesOf(list.Items, func(p v1alpha1.WorkerPool) string { return p.Name }), err
}

func (s *session) namespaceNames(ctx context.Context, _ string) ([]string, error) {
	at, err := s.open()
	if err != nil {
		return nil, err
	}
	list := &corev1.NamespaceList{}
	err = at.List(ctx, list)
	return namesOf(list.Items, func(n corev1.Namespace) string { return n.Name }), err
}

func (s *session) contextNames(context.Context, string) ([]string, error) {
	config, err := s.flags.ToRawKubeConfigLoader().RawConfig()
	return slices.Sorted(maps.Keys(config.Contexts)), err
}

func (s *session) workerNames(ctx context.Context, name string) ([]string, error) {
	at, pool, err := s.openPool(ctx, name)
	if err != nil {
		return nil, err
	}
	published, err := at.readPublished(ctx, pool)
	return namesOf(published.Entries, func(e codec.FileEntry) string { return e.Worker }), err
}

func (s *session) jobNames(ctx context.Context, name string) ([]string, error) {
	at, pool, err := s.openPool(ctx, name)
	if err != nil {
		return nil, err
	}
	jobs, err := at.readJobs(ctx, pool)
	return namesOf(jobs, nameOfJob), err
}

func (s *session) revisionNumbers(ctx context.Context, name string) ([]string, error) {
	at, pool, err := s.openPool(ctx, name)
	if err != nil {
		return nil, err
	}
	history, err := state.History(ctx, at, pool)
	return namesOf(history, func(k plan.StoredRevision) string { return strconv.FormatInt(k.Number, 10) }), err
}

func namesOf[T any](items []T, name func(T) string) []string {
	names := make([]string, len(items))
	for n, item := range items {
		names[n] = name(item)
	}
	return names
}
