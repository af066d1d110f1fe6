package allocator

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
	"github.com/swarm-io/swarm-operator/internal/workload"
)

// RegisterServer answers other replicas while this one leads. Callers must present a certificate of the operator.
func RegisterServer(to grpc.ServiceRegistrar, own Placer, leading func() bool) {
	linkv1.RegisterPlacementServer(to, server{local: own, isLeading: leading})
}

type server struct {
	linkv1.UnimplementedPlacementServer
	local     Placer
	isLeading func() bool
}

// Place implements linkv1.PlacementServer.
func (s server) Place(ctx context.Context, message *linkv1.PlaceRequest) (*linkv1.PlaceResponse, error) {
	request := Request{
		Workload: workload.Key{
			Kind:           v1alpha1.WorkloadKind(message.GetKind()),
			NamespacedName: types.NamespacedName{Namespace: message.GetNamespace(), Name: message.GetName()},
		},
		TemplateHash: message.GetHash(), PodName: message.GetPod(), UID: message.GetRequest(), DryRun: message.GetDryRun(),
	}
	switch {
	case !isVerified(ctx):
		return nil, status.Error(codes.Unauthenticated, "a certificate of the operator is required")
	case !s.isLeading():
		return nil, status.Error(codes.FailedPrecondition, "this replica does not lead")
	case request.Workload.Kind != v1alpha1.WorkloadDeployment && request.Workload.Kind != v1alpha1.WorkloadStatefulSet:
		return nil, status.Errorf(codes.InvalidArgument, "unknown kind %q", message.GetKind())
	}
	placement, err := placeWithRecover(ctx, s.local, request)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, status.FromContextError(err).Err()
	case err != nil:
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &linkv1.PlaceResponse{Managed: placement.Managed, Number: int32(placement.Number), Class: string(placement.Class)}, nil
}

// placeWithRecover turns a panic into an error: gRPC does not recover, so a panic would end the leader. The caller then estimates and does
// not log the failure, so it is logged here.
func placeWithRecover(ctx context.Context, placer Placer, request Request) (answer Placement, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
			log.FromContext(ctx).Error(err, "cannot place a pod for another replica", "stack", string(debug.Stack()))
		}
	}()
	return placer.Place(ctx, request)
}

// isVerified reports whether the caller's certificate was verified when its connection was made.
func isVerified(ctx context.Context) bool {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	info, isTLS := caller.AuthInfo.(credentials.TLSInfo)
	return isTLS && len(info.State.VerifiedChains) > 0
}
