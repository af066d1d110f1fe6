package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Condition types. Every kind has Ready and at most two more.
const (
	// ConditionReady is the condition for `kubectl wait` and kstatus. On a Task it means that the task has succeeded.
	ConditionReady = "Ready"
	// ConditionProgressing is True while a Swarm or Task has not reached its desired state.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while a part of a Swarm or WorkerPool cannot do its work; the rest continues.
	ConditionDegraded = "Degraded"
	// ConditionLinked is True while an Agent's stream to the operator is up and its lease holds.
	ConditionLinked = "Linked"
	// ConditionConverged is True when every affected worker of a pool has acknowledged its part of the revision.
	ConditionConverged = "Converged"
)

// Reason is the one-word reason of a condition. The event for the change has the same reason.
type Reason string

// Reasons of objects without problems.
const (
	ReasonAvailable Reason = "Available"
	ReasonCompleted Reason = "Completed"
	ReasonConverged Reason = "Converged"
	ReasonLinked    Reason = "Linked"
	ReasonSettled   Reason = "Settled"
)

// Reasons of swarms and agents.
const (
	ReasonInitializing  Reason = "Initializing"
	ReasonScaling       Reason = "Scaling"
	ReasonDraining      Reason = "Draining"
	ReasonTerminating   Reason = "Terminating"
	ReasonSuspended     Reason = "Suspended"
	ReasonAgentsFailing Reason = "AgentsFailing"
	ReasonApplyFailed   Reason = "ApplyFailed"
	ReasonNameTaken     Reason = "NameTaken"
	ReasonQuotaExceeded Reason = "QuotaExceeded"
	ReasonSwarmNotFound Reason = "SwarmNotFound"
	ReasonTypeNotFound  Reason = "TypeNotFound"
	ReasonPodPending    Reason = "PodPending"
	ReasonPodFailed     Reason = "PodFailed"
	ReasonLinkLost      Reason = "LinkLost"
	ReasonLinkPending   Reason = "LinkPending"
)

// Reasons why a task waits.
const (
	ReasonNoFreeSlot        Reason = "NoFreeSlot"
	ReasonNoAgentOffers     Reason = "NoAgentOffers"
	ReasonNoAgentReady      Reason = "NoAgentReady"
	ReasonDependencyPending Reason = "DependencyPending"
	ReasonQuotaReached      Reason = "QuotaReached"
	ReasonRetryBackoff      Reason = "RetryBackoff"
	ReasonPaused            Reason = "Paused"
	ReasonHandedBack        Reason = "HandedBack"
	ReasonNotDelivered      Reason = "NotDelivered"
	ReasonPayloadNotFound   Reason = "PayloadNotFound"
	ReasonNotSupported      Reason = "NotSupported"
	ReasonRunning           Reason = "Running"

	ReasonNamespaceLimitReached Reason = "NamespaceLimitReached"
)

// Reasons why a task failed or was stopped.
const (
	ReasonPayloadTooLarge      Reason = "PayloadTooLarge"
	ReasonResultTooLarge       Reason = "ResultTooLarge"
	ReasonResultInvalid        Reason = "ResultInvalid"
	ReasonEpochInvalid         Reason = "EpochInvalid"
	ReasonAttemptFailed        Reason = "AttemptFailed"
	ReasonDependencyFailed     Reason = "DependencyFailed"
	ReasonDependencyCycle      Reason = "DependencyCycle"
	ReasonBadInput             Reason = "BadInput"
	ReasonRetriesExhausted     Reason = "RetriesExhausted"
	ReasonTooManyReassignments Reason = "TooManyReassignments"
	ReasonTooManyHandBacks     Reason = "TooManyHandBacks"
	ReasonTimedOut             Reason = "TimedOut"
	ReasonCancelled            Reason = "Cancelled"
)

// Reasons of worker pools and snapshots.
const (
	ReasonConverging       Reason = "Converging"
	ReasonWorkloadNotFound Reason = "WorkloadNotFound"
	ReasonWorkloadTaken    Reason = "WorkloadTaken"
	ReasonNoWorkers        Reason = "NoWorkers"
	ReasonJobsNotFound     Reason = "JobsNotFound"
	ReasonJobsInvalid      Reason = "JobsInvalid"
	ReasonRevisionNotFound Reason = "RevisionNotFound"
	ReasonJobsUnassigned   Reason = "JobsUnassigned"
	ReasonFailoverFrozen   Reason = "FailoverFrozen"
	ReasonConfigTooLarge   Reason = "ConfigTooLarge"
	ReasonConfigNotOurs    Reason = "ConfigNotOurs"
	ReasonCapturing        Reason = "Capturing"
	ReasonCaptureFailed    Reason = "CaptureFailed"
)

// Ready returns the condition of an object that is in its desired state.
func Ready(generation int64, reason Reason, message string) metav1.Condition {
	return newCondition(ConditionReady, metav1.ConditionTrue, generation, reason, message)
}

// NotReady returns the condition of an object that is not, with the reason.
func NotReady(generation int64, reason Reason, message string) metav1.Condition {
	return newCondition(ConditionReady, metav1.ConditionFalse, generation, reason, message)
}

// Progressing returns the condition of an object that has not reached its desired state.
func Progressing(generation int64, reason Reason, message string) metav1.Condition {
	return newCondition(ConditionProgressing, metav1.ConditionTrue, generation, reason, message)
}

// NotProgressing returns the condition of an object that has.
func NotProgressing(generation int64, reason Reason, message string) metav1.Condition {
	return newCondition(ConditionProgressing, metav1.ConditionFalse, generation, reason, message)
}

// Degraded returns the condition that says which part cannot do its work, and why.
func Degraded(generation int64, reason Reason, message string) metav1.Condition {
	return newCondition(ConditionDegraded, metav1.ConditionTrue, generation, reason, message)
}

// NotDegraded returns the condition that every part can do its work.
func NotDegraded(generation int64) metav1.Condition {
	return newCondition(ConditionDegraded, metav1.ConditionFalse, generation, ReasonAvailable, "")
}

// Linked returns the condition that the agent's stream to the operator is up.
func Linked(generation int64) metav1.Condition {
	return newCondition(ConditionLinked, metav1.ConditionTrue, generation, ReasonLinked, "")
}

// Unlinked returns the condition that it is not, with the reason.
func Unlinked(generation int64, reason Reason, message string) metav1.Condition {
	return newCondition(ConditionLinked, metav1.ConditionFalse, generation, reason, message)
}

// Converged returns the condition that every affected worker has acknowledged its part of the revision.
func Converged(generation int64, message string) metav1.Condition {
	return newCondition(ConditionConverged, metav1.ConditionTrue, generation, ReasonConverged, message)
}

// Converging returns the condition that says what the pool is waiting for.
func Converging(generation int64, reason Reason, message string) metav1.Condition {
	return newCondition(ConditionConverged, metav1.ConditionFalse, generation, reason, message)
}

// newCondition leaves lastTransitionTime to the status writer, which knows whether anything changed.
func newCondition(kind string, status metav1.ConditionStatus, generation int64, reason Reason, message string) metav1.Condition {
	return metav1.Condition{
		Type:               kind,
		Status:             status,
		ObservedGeneration: generation,
		Reason:             string(reason),
		Message:            message,
	}
}
