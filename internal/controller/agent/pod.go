package agent

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// failedWaitingReasons are the states that a container does not leave by itself, with what to do about them.
var failedWaitingReasons = map[string]string{
	"ErrImagePull":               "check the name of the image, and that the node can reach its registry",
	"ImagePullBackOff":           "check the name of the image, and that the node can reach its registry",
	"ErrImageNeverPull":          "load the image onto the node, or change imagePullPolicy",
	"InvalidImageName":           "correct the name of the image",
	"CrashLoopBackOff":           "see its logs",
	"CreateContainerConfigError": "see the pod's events",
	"CreateContainerError":       "see the pod's events",
	"RunContainerError":          "see the pod's events",
}

// podFailure returns why a pod does not start, or "".
func podFailure(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodFailed {
		return fmt.Sprintf("the pod has failed: %s %s", pod.Status.Reason, pod.Status.Message)
	}
	for _, states := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for n := range states {
			if failure := containerFailure(&states[n]); failure != "" {
				return failure
			}
		}
	}
	return ""
}

func containerFailure(container *corev1.ContainerStatus) string {
	// Between two crashes the kubelet may show how the last one ended during the back-off.
	if ended := container.State.Terminated; ended != nil && ended.ExitCode != 0 && container.RestartCount > 0 {
		return fmt.Sprintf("container %q (image %s) crashes: see its logs; it last ended with code %d", container.Name, container.Image,
			ended.ExitCode)
	}
	waiting := container.State.Waiting
	if waiting == nil || failedWaitingReasons[waiting.Reason] == "" {
		return ""
	}
	message := fmt.Sprintf("container %q (image %s) is in %s: %s", container.Name, container.Image, waiting.Reason,
		failedWaitingReasons[waiting.Reason])
	if last := container.LastTerminationState.Terminated; last != nil {
		message += fmt.Sprintf("; it last ended with code %d", last.ExitCode)
	}
	return message
}
