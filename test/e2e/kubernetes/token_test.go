package kubernetes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
)

const audience = "swarm.io"

var _ = Describe("A projected service account token", func() {
	It("is readable in a restricted pod, made out to its audience, and bound to the pod", func(ctx SpecContext) {
		pod := startPod(ctx, idler().mounting("token", projectedToken()).pod("agent"))
		token, err := content(ctx, pod, "/token/token")
		Expect(err).NotTo(HaveOccurred())

		claims := claimsOf(token)
		Expect(claims.Audience).To(HaveExactElements(audience))
		Expect(claims.Kubernetes.Pod).To(Equal(boundPod{Name: pod.Name, UID: string(pod.UID)}))
		Expect(claims.Subject).To(Equal("system:serviceaccount:" + namespace + ":default"))

		Expect(review(ctx, token, audience)).To(HaveField("Authenticated", BeTrue()), "the API server vouches for it")
		Expect(review(ctx, token)).To(HaveField("Authenticated", BeFalse()), "it is worth nothing at the API server itself")
	})
})

func projectedToken() corev1.VolumeSource {
	token := &corev1.ServiceAccountTokenProjection{Audience: audience, Path: "token", ExpirationSeconds: new(int64(600))}
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: token}}}}
}

type tokenClaims struct {
	Audience   []string `json:"aud"`
	Subject    string   `json:"sub"`
	Kubernetes struct {
		Pod boundPod `json:"pod"`
	} `json:"kubernetes.io"`
}

type boundPod struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

func claimsOf(token string) tokenClaims {
	parts := strings.Split(token, ".")
	ExpectWithOffset(1, parts).To(HaveLen(3), "a JSON web token")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	var claims tokenClaims
	ExpectWithOffset(1, json.Unmarshal(text, &claims)).To(Succeed())
	return claims
}

// review creates a TokenReview of a token for an audience (none: that of the API server).
func review(ctx context.Context, token string, audiences ...string) (authenticationv1.TokenReviewStatus, error) {
	asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}
	err := api.Create(ctx, asked)
	return asked.Status, err
}
