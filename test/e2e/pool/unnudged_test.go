package pool

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// quick is how long a kubelet takes to update a file when it syncs the pod anyway.
	quick = 5 * time.Second
	// longest is how long it may take otherwise: it syncs every 60 to 90 s.
	longest = 120 * time.Second
)

// unnudged is a worker whose list changes without a nudge. That takes a minute, in which specs run.
var unnudged struct {
	stage *testEnvironment
	took  chan time.Duration
}

// sampleUnnudged writes lists of a worker by hand, without a nudge.
func sampleUnnudged(ctx context.Context) {
	GinkgoHelper()
	unnudged.stage, unnudged.took = open(ctx), make(chan time.Duration, 1)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: unnudged.stage.namespace, Name: "untold-config"},
		Data: versionAnnotations(1)}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: unnudged.stage.namespace, Name: "untold"},
		Spec: worker(idleContainer(), "untold")}
	create(ctx, config, pod)
	Eventually(unnudged.stage.fetchStatus).WithContext(ctx).WithArguments("untold").Should(HaveField("Version", BeEquivalentTo(1)))
	go func() {
		defer close(unnudged.took)
		// The kubelet syncs a pod several times while it starts. The first list after that counts.
		for version := int64(2); ; version++ {
			took, err := unnudgedDelivery(config, version)
			if err != nil {
				GinkgoWriter.Println("measure without a nudge:", err)
				return
			}
			if took > quick {
				unnudged.took <- took
				return
			}
		}
	}()
}

// unnudgedDelivery returns how long a list takes to reach its worker without a nudge.
func unnudgedDelivery(config *corev1.ConfigMap, version int64) (time.Duration, error) {
	ctx, stop := context.WithTimeout(context.Background(), longest)
	defer stop()
	config.Data, config.ResourceVersion = versionAnnotations(version), "" // even if the last try failed
	began := time.Now()
	for err := api.Update(ctx, config); err != nil; err = api.Update(ctx, config) { // the API server may be unavailable
		if ctx.Err() != nil {
			return 0, err
		}
		began = time.Now()
	}
	for ctx.Err() == nil {
		if said, err := unnudged.stage.fetchStatus(ctx, "untold"); err == nil && said.Version == version {
			return time.Since(began), nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return 0, ctx.Err()
}

func versionAnnotations(version int64) map[string]string {
	return map[string]string{"config.yml": fmt.Sprintf("version: %d\nworkloads:\n  untold:\n    jobs: []\n    version: %d\n", version,
		version)}
}

var _ = AfterSuite(func(ctx SpecContext) {
	if unnudged.took == nil {
		return
	}
	var took time.Duration
	Eventually(unnudged.took).WithContext(ctx).WithTimeout(longest).Should(Receive(&took))
	AddReportEntry("without a nudge a list was acknowledged after", ReportEntryVisibilityAlways, fmt.Sprintf("%.1f s", took.Seconds()))
})
