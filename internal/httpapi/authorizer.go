package httpapi

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TokenReviews is the part of client-go that creates TokenReviews.
type TokenReviews interface {
	Create(ctx context.Context, review *authenticationv1.TokenReview, options metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// AccessReviews is the part of client-go that creates SubjectAccessReviews.
type AccessReviews interface {
	Create(ctx context.Context, review *authorizationv1.SubjectAccessReview,
		options metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// DelegatedAuthorizer is an Authorizer with the right to review others.
type DelegatedAuthorizer struct {
	Tokens TokenReviews
	Access AccessReviews
}

// Authenticate implements Authorizer.
func (r DelegatedAuthorizer) Authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	result, err := r.Tokens.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, false, err
	}
	return result.Status.User, result.Status.Authenticated, nil
}

// Authorize implements Authorizer.
func (r DelegatedAuthorizer) Authorize(ctx context.Context, _ string, caller authenticationv1.UserInfo, attributes Attributes) (bool,
	error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: caller.Username, UID: caller.UID, Groups: caller.Groups, Extra: convertExtra(caller.Extra),
		ResourceAttributes: attributes.Resource, NonResourceAttributes: attributes.Path,
	}}
	result, err := r.Access.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return result.Status.Allowed, nil
}

func convertExtra(extra map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	converted := make(map[string]authorizationv1.ExtraValue, len(extra))
	for key, values := range extra {
		converted[key] = authorizationv1.ExtraValue(values)
	}
	return converted
}

// SelfAuthorizer is an Authorizer without that right: it creates self reviews with each caller's own token, which every user may. Its
// clients must have no credentials of their own.
type SelfAuthorizer struct {
	Authentication, Authorization rest.Interface
}

// Authenticate implements Authorizer.
func (s SelfAuthorizer) Authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	result := &authenticationv1.SelfSubjectReview{}
	err := postAs(token, s.Authentication, "selfsubjectreviews").Body(&authenticationv1.SelfSubjectReview{}).Do(ctx).Into(result)
	if apierrors.IsUnauthorized(err) {
		return authenticationv1.UserInfo{}, false, nil
	}
	if err != nil {
		return authenticationv1.UserInfo{}, false, fmt.Errorf("ask who has it: %w", err)
	}
	caller := result.Status.UserInfo
	return caller, caller.Username != "" && caller.Username != anonymous, nil
}

// anonymous is the user name of requests without valid credentials.
const anonymous = "system:anonymous"

// Authorize implements Authorizer.
func (s SelfAuthorizer) Authorize(ctx context.Context, token string, _ authenticationv1.UserInfo, attributes Attributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: attributes.Resource, NonResourceAttributes: attributes.Path,
	}}
	result := &authorizationv1.SelfSubjectAccessReview{}
	if err := postAs(token, s.Authorization, "selfsubjectaccessreviews").Body(review).Do(ctx).Into(result); err != nil {
		return false, err
	}
	return result.Status.Allowed, nil
}

func postAs(token string, client rest.Interface, resource string) *rest.Request {
	return client.Post().Resource(resource).SetHeader("Authorization", "Bearer "+token)
}
