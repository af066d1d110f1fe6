// Package authorizer sits between the link and the dispatcher: authentication has proven which pod is at the other end of a stream,
// and this package decides which messages of that pod are passed on.
//
// It promises:
//   - Only pods of swarms in scope join. The pod is controlled by a StatefulSet of the Swarm, or is the pod that Agent status names
//     as linked; and the Agent object, if it exists, is controlled by that Swarm and names it.
//   - An agent names no more running attempts than it has slots for, and no two of the same work.
//   - An agent can only report on attempts of tasks in its own namespace. The dispatcher compares their swarm, UID and epoch.
//   - What is passed on can be stored: its size and its shape are within the bounds of the API.
//
// It never changes messages of an honest agent, and it never lets an agent forget a result.
package authorizer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/link"
)

const (
	// readTimeout bounds how long a stream waits for the API server.
	readTimeout = 5 * time.Second
	// liveReadsPerSecond is how many objects are read past the cache per second, for all agents. Agents whose objects are in the cache need
	// none.
	liveReadsPerSecond = 50
	// liveReadSharePercent is how many of them, in percent, one namespace can use. Waiting namespaces take turns.
	liveReadSharePercent = 50
)

// Scope decides which namespaces the operator works in.
type Scope interface {
	IncludesNamed(ctx context.Context, reader client.Reader, namespace string) (bool, error)
}

// Config configures an Authorizer.
type Config struct {
	Cache    client.Reader
	Live     client.Reader // past the cache
	Scope    Scope
	Refusals *limit.Refusals
	Next     link.Events // gets the authorized messages
}

// An Authorizer passes on the messages that agents may send. It implements link.Events.
type Authorizer struct {
	config      Config
	liveLimiter *limit.FairLimiter // by namespace

	mu           sync.Mutex
	refusedUntil map[string]time.Time // UIDs of pods, and until when they are refused without another lookup
}

var _ link.Events = &Authorizer{}

// New returns an Authorizer.
func New(config Config) *Authorizer {
	live := limit.NewFairLimiter(limit.Budget{PerSecond: liveReadsPerSecond, Burst: 2 * liveReadsPerSecond, Share: liveReadSharePercent})
	return &Authorizer{config: config, liveLimiter: live, refusedUntil: map[string]time.Time{}}
}

// A denial is final until an object changes. Any other error means that the agent may retry at once.
type denial struct{ reason string }

func (d denial) Error() string { return d.reason }

func denyf(format string, args ...any) error { return denial{fmt.Sprintf(format, args...)} }

// Joined implements link.Events.
func (a *Authorizer) Joined(agent link.Agent, podUID string, hello *linkv1.Hello) error {
	if a.isRefused(podUID) {
		a.config.Refusals.Count(limit.UnauthorizedAgents)
		return denyf("this pod was refused a moment ago: try again later")
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	err := checkNames(hello)
	if err == nil {
		err = a.authorize(ctx, agent, podUID, hello)
	}
	if err == nil {
		a.sanitizeHello(agent, hello)
		err = checkRunning(hello)
	}
	if err != nil {
		a.config.Refusals.Count(limit.UnauthorizedAgents)
		if errors.As(err, &denial{}) {
			a.refuse(podUID)
		}
		return err
	}
	return a.config.Next.Joined(agent, podUID, hello)
}

// Received implements link.Events.
func (a *Authorizer) Received(agent link.Agent, message *linkv1.AgentMessage) {
	switch kind := message.GetKind().(type) {
	case *linkv1.AgentMessage_Result:
		if !a.mayReport(agent, kind.Result.GetAttempt()) {
			return
		}
		limitResult(kind.Result)
	case *linkv1.AgentMessage_Progress:
		if !a.mayReport(agent, kind.Progress.GetAttempt()) {
			return
		}
		kind.Progress.Message = truncateStart(kind.Progress.GetMessage(), maxMessageBytes)
	}
	a.config.Next.Received(agent, message)
}

// Left implements link.Events.
func (a *Authorizer) Left(agent link.Agent) { a.config.Next.Left(agent) }

// mayReport reports whether an agent may report on an attempt.
func (a *Authorizer) mayReport(agent link.Agent, attempt *linkv1.Attempt) bool {
	if attempt.GetNamespace() == agent.Namespace && isValidAttempt(attempt) {
		attempt.ProtoReflect().SetUnknown(nil) // the dispatcher keeps attempts
		return true
	}
	a.config.Refusals.Count(limit.UnauthorizedAttempts)
	return false
}

// authorize returns why a pod is not an agent of the swarm that it names, or nil if it is one.
func (a *Authorizer) authorize(ctx context.Context, agent link.Agent, podUID string, hello *linkv1.Hello) error {
	included, err := a.config.Scope.IncludesNamed(ctx, a.config.Cache, agent.Namespace)
	switch {
	case err != nil:
		return err
	case !included:
		return denyf("namespace %q is not one that this operator works in", agent.Namespace)
	}
	swarm := &v1alpha1.Swarm{}
	if found, err := a.read(ctx, types.NamespacedName{Namespace: agent.Namespace, Name: hello.GetSwarm()}, swarm); err != nil || !found {
		return errorOrDenial(err, "there is no Swarm %q", hello.GetSwarm())
	}
	object := &v1alpha1.Agent{}
	exists, err := a.read(ctx, types.NamespacedName{Namespace: agent.Namespace, Name: agent.Name}, object)
	switch {
	case err != nil:
		return err
	case exists && !metav1.IsControlledBy(object, swarm):
		return denyf("Agent %q is not controlled by Swarm %q", agent.Name, swarm.Name)
	case exists && object.Spec.SwarmRef.Name != swarm.Name: // the dispatcher counts the agent by this name
		return denyf("Agent %q names another Swarm than %q", agent.Name, swarm.Name)
	case exists && object.Status.LinkedPodUID == podUID:
		return nil
	}
	return a.authorizePod(ctx, agent, podUID, swarm)
}

// authorizePod returns why a pod does not belong to a Swarm.
func (a *Authorizer) authorizePod(ctx context.Context, agent link.Agent, podUID string, swarm *v1alpha1.Swarm) error {
	pod, name := &corev1.Pod{}, types.NamespacedName{Namespace: agent.Namespace, Name: agent.Name}
	found, err := a.readMatching(ctx, name, pod, func() bool { return string(pod.UID) == podUID })
	if err != nil || !found {
		return errorOrDenial(err, "pod %q is not there any more", agent.Name)
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "StatefulSet" {
		return denyf("pod %q is not controlled by a StatefulSet of Swarm %q", agent.Name, swarm.Name)
	}
	set := &appsv1.StatefulSet{}
	found, err = a.readMatching(ctx, types.NamespacedName{Namespace: agent.Namespace, Name: owner.Name}, set,
		func() bool { return set.UID == owner.UID })
	if err != nil || !found || !metav1.IsControlledBy(set, swarm) {
		return errorOrDenial(err, "StatefulSet %q of pod %q is not controlled by Swarm %q", owner.Name, agent.Name, swarm.Name)
	}
	return nil
}

// errorOrDenial returns the error if it is not nil, and a denial otherwise.
func errorOrDenial(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return denyf(format, args...)
}

func (a *Authorizer) read(ctx context.Context, name types.NamespacedName, object client.Object) (found bool, err error) {
	return a.readMatching(ctx, name, object, func() bool { return true })
}

// readMatching reads an object from the cache, and from the API server if the cache has none that is right: the cache may lag.
func (a *Authorizer) readMatching(ctx context.Context, name types.NamespacedName, object client.Object, matches func() bool) (found bool,
	err error) {
	if err := a.config.Cache.Get(ctx, name, object); err == nil && matches() {
		return true, nil
	}
	if err := a.liveLimiter.Wait(ctx, name.Namespace); err != nil {
		return false, fmt.Errorf("too many agents of namespace %q are looked up at the moment, connect again: %w", name.Namespace, err)
	}
	err = a.config.Live.Get(ctx, name, object)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %T %q: %w", object, name, err)
	}
	return matches(), nil
}
