package v1alpha1

// Prefix starts every label and annotation of ours. Only the spread annotations may be given another one.
const Prefix = "swarm.io/"

// Finalizer holds back the removal of an object until its work is drained and what it owns is cleaned up.
const Finalizer = Prefix + "finalizer"

// Labels on the objects we make, and the one that people put on a StatefulSet.
const (
	// LabelSwarm names the Swarm that an object belongs to.
	LabelSwarm = Prefix + "swarm"
	// LabelAgentType names the agent type that a StatefulSet, a pod or an Agent belongs to.
	LabelAgentType = Prefix + "type"
	// LabelPool names the WorkerPool; on a StatefulSet that has none it asks for one to be made.
	LabelPool = Prefix + "pool"
	// LabelSlot is the number that a pod of a Deployment holds in its pool, so that a replacement inherits the jobs.
	LabelSlot = Prefix + "slot"
	// LabelManagedBy is ManagedByOperator on objects that the operator creates.
	LabelManagedBy    = "app.kubernetes.io/managed-by"
	ManagedByOperator = "swarm-operator"
)

// Annotations that people put on any object of ours.
const (
	// AnnotationPaused stops every write for the object while it is "true".
	AnnotationPaused = Prefix + "paused"
	// AnnotationReconcileAt asks for a reconcile at once whenever its value is a new one.
	AnnotationReconcileAt = Prefix + "reconcile-at"
	// AnnotationReset forgets derived state and rebuilds it from the world whenever its value is a new one.
	AnnotationReset = Prefix + "reset"
)

// Annotations that the operator writes.
const (
	// AnnotationConfigVersion on a pod nudges the kubelet and tells the worker which version its file must reach.
	AnnotationConfigVersion = Prefix + "config-version"
	// AnnotationNudge on a pod nudges the kubelet once more, when the first time brought nothing.
	AnnotationNudge = Prefix + "nudge"
	// AnnotationTerm on the Secret of the link is the newest term that a leader has claimed.
	AnnotationTerm = Prefix + "term"

	// AnnotationFence on a pool's ConfigMap is a number that each leader raises before it decides anything, so that a late write of an earlier
	// one conflicts.
	AnnotationFence = Prefix + "fence"
	// AnnotationLedger on a pool's ConfigMap says what workers may hold beside what is published for them.
	AnnotationLedger = Prefix + "ledger"
	// AnnotationChecksum on a pool's ConfigMap tells our writes from those of others.
	AnnotationChecksum = Prefix + "checksum"
	// AnnotationRegisteredBy on a MutatingWebhookConfiguration names the process that has created it, as one outside of the cluster does.
	AnnotationRegisteredBy = Prefix + "registered-by"
)

// AnnotationTooLarge marks an object in the operator's own cache of which too little is kept to decide about it. The operator
// never writes it to the API server, and leaves an object alone that has it there.
const AnnotationTooLarge = Prefix + "too-large"

// SpreadAnnotation is the part of a spread annotation's key that follows the prefix, which can be configured.
type SpreadAnnotation string

// Spread annotations. The first five are read from a Deployment or StatefulSet, the next five are written to it, the others to its pods.
const (
	// SpreadMode opts in when its value is SpreadEnabled; it works as a label, too.
	SpreadMode SpreadAnnotation = "spread"
	// SpreadSpotPercentage is the wanted share on spot nodes, 0 to 100, with or without a percent sign.
	SpreadSpotPercentage SpreadAnnotation = "spot-percentage"
	// SpreadMinOnDemand is the on-demand floor, which is served first.
	SpreadMinOnDemand SpreadAnnotation = "min-on-demand"
	// SpreadPDBOverride allows deleting instead of evicting when it is "true".
	SpreadPDBOverride SpreadAnnotation = "pdb-override"
	// SpreadWindows is when Ready pods may be moved, such as "0 2 * * * for 3h"; it works on a namespace, too.
	SpreadWindows SpreadAnnotation = "disruption-windows"
	// SpreadDesired is the wanted split, such as "on-demand:4,spot:6".
	SpreadDesired SpreadAnnotation = "desired-distribution"
	// SpreadCurrent is the split as it is, in the same form.
	SpreadCurrent SpreadAnnotation = "current-distribution"
	// SpreadStatus says whether the two agree and, if not, why.
	SpreadStatus SpreadAnnotation = "spread-status"
	// SpreadReason is what stands behind the status, while that is not Balanced.
	SpreadReason SpreadAnnotation = "spread-reason"
	// SpreadSettings is the last good setting, which stays in force while the present one is invalid.
	SpreadSettings SpreadAnnotation = "spread-settings"
	// SpreadNumber is the number of a pod among the replicas.
	SpreadNumber SpreadAnnotation = "spread-number"
	// SpreadClass is the class of nodes that a pod was made for.
	SpreadClass SpreadAnnotation = "spread-class"
)

// Values of SpreadMode: the first opts a workload in, and so does no other. The second is what the StatefulSets of a Swarm without spread
// say.
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

// Key is the full annotation key under a prefix such as Prefix.
func (a SpreadAnnotation) Key(prefix string) string {
	return prefix + string(a)
}
