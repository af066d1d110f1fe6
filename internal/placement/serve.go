package placement

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// Serve answers other replicas while this one leads. Callers must present a certificate of the operator.
func Serve(to grpc.ServiceRegistrar, own Asker, leading func() bool) {
	linkv1.RegisterPlacementServer(to, reception{own: own, leading: leading})
}

type reception struct {
	linkv1.UnimplementedPlacementServer
	own     Asker
	leading func() bool
}

// Place implements linkv1.PlacementServer.
func (r reception) Place(ctx context.Context, asked *linkv1.PlaceRequest) (*linkv1.PlaceResponse, error) {
	ask := Ask{
		Workload: survey.Key{
			Kind:           v1alpha1.WorkloadKind(asked.GetKind()),
			NamespacedName: types.NamespacedName{Namespace: asked.GetNamespace(), Name: asked.GetName()},
		},
		Hash: asked.GetHash(), Pod: asked.GetPod(), Request: asked.GetRequest(), DryRun: asked.GetDryRun(),
	}
	switch {
	case !verified(ctx):
		return nil, status.Error(codes.Unauthenticated, "a certificate of the operator's is needed")
	case !r.leading():
		return nil, status.Error(codes.FailedPrecondition, "this replica does not lead")
	case ask.Workload.Kind != v1alpha1.WorkloadDeployment && ask.Workload.Kind != v1alpha1.WorkloadStatefulSet:
		return nil, status.Errorf(codes.InvalidArgument, "nothing is known of kind %q", asked.GetKind())
	}
	answer, err := calmly(ctx, r.own, ask)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, status.FromContextError(err).Err()
	case err != nil:
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &linkv1.PlaceResponse{Managed: answer.Managed, Number: int32(answer.Number), Class: string(answer.Class)}, nil
}

// calmly turns a panic into an error: gRPC does not recover, so a panic would end the leader. The caller then estimates and does not
// log the failure, so it is logged here.
func calmly(ctx context.Context, asker Asker, ask Ask) (answer Answer, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
			log.FromContext(ctx).Error(err, "another replica was not told where a pod goes", "stack", string(debug.Stack()))
		}
	}()
	return asker.Place(ctx, ask)
}

// verified reports whether the caller's certificate was verified when its connection was made.
func verified(ctx context.Context) bool {
	from, known := peer.FromContext(ctx)
	if !known {
		return false
	}
	info, isTLS := from.AuthInfo.(credentials.TLSInfo)
	return isTLS && len(info.State.VerifiedChains) > 0
}
