package v1alpha1

// Prefix is the prefix of all our labels and annotations. Only the spread annotations can be configured to have another one.
const Prefix = "swarm.io/"

// Finalizer delays the deletion of an object until its work is drained and its dependents are cleaned up.
const Finalizer = Prefix + "finalizer"

// Labels on the objects that the operator creates, and the one that users set on a StatefulSet.
const (
	// LabelSwarm names the Swarm that an object belongs to.
	LabelSwarm = Prefix + "swarm"
	// LabelAgentType names the agent type that a StatefulSet, a pod or an Agent belongs to.
	LabelAgentType = Prefix + "type"
	// LabelPool names the WorkerPool; on a StatefulSet without one it requests that one is created.
	LabelPool = Prefix + "pool"
	// LabelSlot is the slot number of a pod of a Deployment in its pool, so that a replacement inherits the jobs.
	LabelSlot = Prefix + "slot"
	// LabelManagedBy is ManagedByOperator on objects that the operator creates.
	LabelManagedBy    = "app.kubernetes.io/managed-by"
	ManagedByOperator = "swarm-operator"
)

// Annotations that users set on any of our objects.
const (
	// AnnotationPaused stops all writes for the object while it is "true".
	AnnotationPaused = Prefix + "paused"
	// AnnotationReconcileAt requests an immediate reconcile whenever its value changes.
	AnnotationReconcileAt = Prefix + "reconcile-at"
	// AnnotationReset drops derived state and rebuilds it from the cluster whenever its value changes.
	AnnotationReset = Prefix + "reset"
)

// Annotations that the operator writes.
const (
	// AnnotationConfigVersion on a pod nudges the kubelet and tells the worker which version its file must reach.
	AnnotationConfigVersion = Prefix + "config-version"
	// AnnotationNudge on a pod nudges the kubelet again when the first nudge had no effect.
	AnnotationNudge = Prefix + "nudge"
	// AnnotationTerm on the Secret of the link is the newest term that a leader has claimed.
	AnnotationTerm = Prefix + "term"

	// AnnotationFence on a pool's ConfigMap is a number that each leader raises before it decides anything, so that late writes of earlier
	// leaders conflict.
	AnnotationFence = Prefix + "fence"
	// AnnotationLedger on a pool's ConfigMap records which jobs workers may hold in addition to those published for them.
	AnnotationLedger = Prefix + "ledger"
	// AnnotationChecksum on a pool's ConfigMap distinguishes our writes from those of others.
	AnnotationChecksum = Prefix + "checksum"
	// AnnotationRegisteredBy on a MutatingWebhookConfiguration names the process that created it, which runs outside of the cluster.
	AnnotationRegisteredBy = Prefix + "registered-by"
)

// AnnotationTooLarge marks an object in the operator's cache of which too little is kept to decide about it. The operator never writes it
// to the API server, and ignores objects that have it there.
const AnnotationTooLarge = Prefix + "too-large"

// SpreadAnnotation is the part of a spread annotation's key that follows the prefix, which can be configured.
type SpreadAnnotation string

// Spread annotations. The first five are read from a Deployment or StatefulSet, the next five are written to it, the others to its pods.
const (
	// SpreadMode opts in when its value is SpreadEnabled; it can also be a label.
	SpreadMode SpreadAnnotation = "spread"
	// SpreadSpotPercentage is the wanted share on spot nodes, 0 to 100, with or without a percent sign.
	SpreadSpotPercentage SpreadAnnotation = "spot-percentage"
	// SpreadMinOnDemand is the number of replicas that always stay on on-demand nodes. It takes precedence over the share.
	SpreadMinOnDemand SpreadAnnotation = "min-on-demand"
	// SpreadPDBOverride allows deleting instead of evicting when it is "true".
	SpreadPDBOverride SpreadAnnotation = "pdb-override"
	// SpreadWindows is when Ready pods may be moved, such as "0 2 * * * for 3h"; it can also be set on a namespace.
	SpreadWindows SpreadAnnotation = "disruption-windows"
	// SpreadDesired is the wanted split, such as "on-demand:4,spot:6".
	SpreadDesired SpreadAnnotation = "desired-distribution"
	// SpreadCurrent is the actual split, in the same form.
	SpreadCurrent SpreadAnnotation = "current-distribution"
	// SpreadStatus says whether the two agree and, if not, why.
	SpreadStatus SpreadAnnotation = "spread-status"
	// SpreadReason is the reason of the status, while that is not Balanced.
	SpreadReason SpreadAnnotation = "spread-reason"
	// SpreadSettings is the last valid setting, which stays in force while the current one is invalid.
	SpreadSettings SpreadAnnotation = "spread-settings"
	// SpreadNumber is the number of a pod among the replicas.
	SpreadNumber SpreadAnnotation = "spread-number"
	// SpreadClass is the class of nodes that a pod was created for.
	SpreadClass SpreadAnnotation = "spread-class"
)

// Values of SpreadMode. Only the first opts a workload in. The second is set on the StatefulSets of a Swarm without spread.
const (
	SpreadEnabled  = "enabled"
	SpreadDisabled = "disabled"
)

// Values of SpreadStatus. An invalid setting follows SpreadInvalid after a colon and a space.
const (
	SpreadBalanced        = "Balanced"
	SpreadRebalancing     = "Rebalancing"
	SpreadSpotUnavailable = "SpotUnavailable"
	SpreadBlockedByPDB    = "BlockedByPDB"
	SpreadInvalid         = "Invalid"
)

// Key returns the full annotation key with a prefix such as Prefix.
func (a SpreadAnnotation) Key(prefix string) string {
	return prefix + string(a)
}
