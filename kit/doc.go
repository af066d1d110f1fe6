// Package kit is a small layer over controller-runtime for our controllers and for yours: typed reconcilers, results with reasons,
// finalizers, one status write, and a leader that cannot act once it is no longer the leader.
//
// It promises:
//   - A reconciler receives the object, never a key: a copy from the cache that it may change. An object that no longer exists is skipped
//     silently. A write that lost a race (conflict) is not an error: the object is reconciled again.
//   - An event that arrives during a reconcile is never lost; a hundred of them cause one more reconcile. No two reconciles of one object
//     run at once, and at most Concurrency of all objects.
//   - Status is written in one merge patch that names the resource version it was computed from, and not at all when
//     nothing changed. Events are sent after that patch succeeded, never before, with the reason of the condition.
//   - The finalizer is on the object before the reconciler sees it, and is removed only when the cleanup is done.
//   - Caches are synced before the program is ready, it is ready before it stands for election, and it is elected before
//     any controller runs. Caches that do not sync in time end the program.
//   - A leader whose last renewal of the Lease is older than the renew deadline writes nothing: new writes are refused with ErrNotLeading,
//     writes in flight are cancelled, and the program ends. A renewal counts from when it was sent, and the renew deadline is two thirds of
//     the Lease's duration, so the old leader stops before the next one can begin.
//   - A panic in a reconcile is counted and becomes an error of that object; it does not end the program.
//
// It never reads flags, files or environment, never both logs and returns an error, never labels a metric with the name of an object, and
// never requeues an object whose problem needs a human.
package kit
