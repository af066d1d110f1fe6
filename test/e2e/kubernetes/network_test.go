package kubernetes

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

var _ = Describe("A headless Service", func() {
	It("is a name for all its pods, and each pod has a name below it", func(ctx SpecContext) {
		create(ctx, headless("web"), httpServer().statefulSet("web", 2))
		client := startPod(ctx, idler().pod("client"))
		pods := awaitServing(ctx, "web", 2)
		domain := "web." + namespace + ".svc.cluster.local"

		Eventually(addresses).WithContext(ctx).WithArguments(client, domain).
			Should(ConsistOf(pods[0].Status.PodIP, pods[1].Status.PodIP))
		for _, pod := range pods {
			Eventually(addresses).WithContext(ctx).WithArguments(client, pod.Name+"."+domain).Should(HaveExactElements(pod.Status.PodIP))
			Expect(fetchFrom(ctx, client, url(pod.Name+".web"))).To(Equal(pod.Name), "by the short name, too")
		}
	})
})

var _ = Describe("A ClusterIP Service", func() {
	It("reaches pods on both nodes from both nodes", func(ctx SpecContext) {
		far, near := twoServers()
		for _, pod := range []*corev1.Pod{far, near} {
			pod.Labels[appLabel] = "web"
		}
		web := service("web")
		create(ctx, web, far, near)
		clients := []*corev1.Pod{startPod(ctx, idler().onNode(nodes[0]).pod("client-0")), startPod(ctx, idler().onNode(nodes[1]).pod("client-1"))}
		awaitServing(ctx, "web", 2)

		for _, client := range clients {
			for _, server := range []*corev1.Pod{far, near} {
				Eventually(fetchFrom).WithContext(ctx).WithArguments(client, "http://"+web.Spec.ClusterIP+"/").
					Should(Equal(server.Name), "%s reaches %s through the Service", client.Name, server.Name)
			}
			Expect(fetchFrom(ctx, client, "http://web/")).To(BeElementOf(far.Name, near.Name), "by name")
		}
	})
})

var _ = Describe("Pods on two nodes", func() {
	It("reach each other by address", func(ctx SpecContext) {
		one, other := twoServers()
		create(ctx, one, other)
		one, other = awaitReady(ctx, one.Name), awaitReady(ctx, other.Name)
		Expect(one.Spec.NodeName).NotTo(Equal(other.Spec.NodeName))

		Expect(fetchFrom(ctx, one, url(other.Status.PodIP))).To(Equal(other.Name))
		Expect(fetchFrom(ctx, other, url(one.Status.PodIP))).To(Equal(one.Name))
	})
})

// twoServers are on different nodes.
func twoServers() (one, other *corev1.Pod) {
	return httpServer().onNode(nodes[0]).pod("on-first"), httpServer().onNode(nodes[1]).pod("on-second")
}
