package devcluster

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func writeNote(ctx context.Context, client kubernetes.Interface, name string) error {
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, note, metav1.CreateOptions{})
	return err
}

func readNote(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
	return err
}

// timedOut reports whether the client or the API server timed out. The API server breaks off an answer that it has begun.
func timedOut(err error) bool {
	var late net.Error
	return apierrors.IsTimeout(err) || errors.As(err, &late) && late.Timeout() || strings.Contains(err.Error(), "INTERNAL_ERROR; received from peer")
}

// describeSecondServer is about two API servers and the link by which the second reaches etcd.
func describeSecondServer(c *cluster) {
	It("serves the same objects from both API servers", func(ctx SpecContext) {
		one, two := c.client(first), c.client(second)
		Expect(writeNote(ctx, one, "by-the-first")).To(Succeed())
		Expect(readNote(ctx, two, "by-the-first")).To(Succeed())
		Expect(writeNote(ctx, two, "by-the-second")).To(Succeed())
		Expect(readNote(ctx, one, "by-the-second")).To(Succeed())
	}, SpecTimeout(patience))

	It("parts the second API server from etcd, and not the first", func(ctx SpecContext) {
		one, two := c.client(first), c.client(second)
		succeed(c.on("pause", "etcd-link"))
		DeferCleanup(func() { succeed(c.on("resume", "etcd-link")) })
		Expect(writeNote(ctx, two, "into-the-void")).To(MatchError(timedOut, "no answer"))
		Expect(readNote(ctx, two, "by-the-first")).To(MatchError(timedOut, "no answer"))
		Expect(writeNote(ctx, one, "while-parted")).To(Succeed())
		succeed(c.on("resume", "etcd-link"))
		Eventually(readNote).WithContext(ctx).WithArguments(two, "while-parted").Should(Succeed())
		Eventually(writeNote).WithContext(ctx).WithArguments(two, "after-parting").Should(Succeed())
	}, SpecTimeout(patience))
}

// describeFaults hurts the control plane and lets it recover.
func describeFaults(c *cluster) {
	It("freezes an API server, which then does not answer, and lets it go on", func(ctx SpecContext) {
		client := c.client(first)
		succeed(c.on("pause", "kube-apiserver"))
		DeferCleanup(func() { succeed(c.on("resume", "kube-apiserver")) })
		Expect(answers(ctx, client)).To(MatchError(timedOut, "no answer"))
		session := finish(c.on("status"))
		Expect(session).To(gexec.Exit(1), "not every component runs")
		Expect(string(session.Out.Contents())).To(MatchRegexp(`(?m)^kube-apiserver +paused +\d+$`))
		succeed(c.on("resume", "kube-apiserver"))
		Eventually(answers).WithContext(ctx).WithArguments(client).Should(Succeed())
		Expect(c.component("kube-apiserver").State).To(Equal("running"))
	}, SpecTimeout(patience))

	It("restarts the scheduler, which then schedules", func(ctx SpecContext) {
		before := c.component("kube-scheduler").PID
		succeed(c.on("restart", "kube-scheduler"))
		Eventually(c.component).WithArguments("kube-scheduler").
			Should(And(HaveField("State", "running"), HaveField("PID", Not(Equal(before)))))
		c.kubectl("run", "late", "--image="+imageName(probeTarball()), "--image-pull-policy=Never", "--", "sleep")
		Eventually(phaseOf).WithContext(ctx).WithArguments(c.client(first), "late").Should(Equal(corev1.PodRunning))
	}, SpecTimeout(patience))

	It("starts a component again that ended by itself", func() {
		before := c.component("kwok").PID
		Expect(syscall.Kill(before, syscall.SIGKILL)).To(Succeed())
		Eventually(c.component).WithArguments("kwok").Should(And(HaveField("State", "running"), HaveField("PID", Not(Equal(before)))))
	})

	It("keeps a killed component down until it is restarted, and etcd keeps its data", func(ctx SpecContext) {
		client := c.client(first)
		succeed(c.on("kill", "etcd"))
		// Longer than a component rests that ended by itself.
		Consistently(c.component).WithArguments("etcd").WithTimeout(2 * time.Second).WithPolling(500 * time.Millisecond).
			Should(Equal(component{Name: "etcd", State: "killed"}))
		Expect(answers(ctx, client)).NotTo(Succeed())
		Expect(refused(c.on("pause", "etcd"))).To(ContainSubstring("run `devcluster restart etcd` first"))
		succeed(c.on("restart", "etcd"))
		Eventually(readNote).WithContext(ctx).WithArguments(client, "by-the-first").Should(Succeed())
	}, SpecTimeout(patience))
}
