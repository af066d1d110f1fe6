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
	Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, options metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// Reviews is a Judge with the right to review others.
type Reviews struct {
	Tokens TokenReviews
	Access AccessReviews
}

// Identify implements Judge.
func (r Reviews) Identify(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	answered, err := r.Tokens.Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, false, err
	}
	return answered.Status.User, answered.Status.Authenticated, nil
}

// Allows implements Judge.
func (r Reviews) Allows(ctx context.Context, _ string, caller authenticationv1.UserInfo, wanted Wanted) (bool, error) {
	asked := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: caller.Username, UID: caller.UID, Groups: caller.Groups, Extra: extras(caller.Extra),
		ResourceAttributes: wanted.Resource, NonResourceAttributes: wanted.Path,
	}}
	answered, err := r.Access.Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answered.Status.Allowed, nil
}

func extras(of map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	to := make(map[string]authorizationv1.ExtraValue, len(of))
	for key, values := range of {
		to[key] = authorizationv1.ExtraValue(values)
	}
	return to
}

// Selves is a Judge without that right: it creates self reviews with each caller's own token, which every user may. Its clients must
// have no credentials of their own.
type Selves struct {
	Authentication, Authorization rest.Interface
}

// Identify implements Judge.
func (s Selves) Identify(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	answered := &authenticationv1.SelfSubjectReview{}
	err := as(token, s.Authentication, "selfsubjectreviews").Body(&authenticationv1.SelfSubjectReview{}).Do(ctx).Into(answered)
	if apierrors.IsUnauthorized(err) {
		return authenticationv1.UserInfo{}, false, nil
	}
	if err != nil {
		return authenticationv1.UserInfo{}, false, fmt.Errorf("ask who has it: %w", err)
	}
	caller := answered.Status.UserInfo
	return caller, caller.Username != "" && caller.Username != anonymous, nil
}

// anonymous is the user name of requests without valid credentials.
const anonymous = "system:anonymous"

// Allows implements Judge.
func (s Selves) Allows(ctx context.Context, token string, _ authenticationv1.UserInfo, wanted Wanted) (bool, error) {
	asked := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: wanted.Resource, NonResourceAttributes: wanted.Path}}
	answered := &authorizationv1.SelfSubjectAccessReview{}
	if err := as(token, s.Authorization, "selfsubjectaccessreviews").Body(asked).Do(ctx).Into(answered); err != nil {
		return false, err
	}
	return answered.Status.Allowed, nil
}

func as(token string, client rest.Interface, resource string) *rest.Request {
	return client.Post().Resource(resource).SetHeader("Authorization", "Bearer "+token)
}
