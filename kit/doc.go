// Package kit is the small layer that our controllers build on, and yours can: typed reconcilers over controller-runtime,
// with results that give reasons, finalizers, one status write, and a leader that cannot act once it is no longer the
// leader.
//
// It promises:
//   - A reconciler receives the object, never a key: a copy from the cache that it may change. An object that is gone is
//     skipped silently, and so is a write that lost a race (conflict): both are reconciled again, neither is an error.
//   - An event that arrives during a reconcile is never lost; a hundred of them cost one more reconcile. No two
//     reconciles of one object run at once, and no more than Concurrency of all.
//   - Status is written in one merge patch that names the resource version it was computed from, and not at all when
//     nothing changed. Events are sent after that patch succeeded, never before, with the reason of the condition.
//   - The finalizer is on the object before the reconciler sees it, and is removed only when the cleanup is done.
//   - Caches are synced before the program is ready, it is ready before it stands for election, and it is elected before
//     any controller runs. Caches that do not sync in time end the program.
//   - A leader whose last renewal of the Lease is older than the renew deadline writes nothing: new writes are refused
//     with ErrNotLeading, writes in flight are cancelled, and the program ends. A renewal counts from when it was sent,
//     and the renew deadline is two thirds of the lease, so the old leader is silent before the next one can begin.
//   - A panic in a reconcile is an error of that object, counted, and not the end of the program.
//
// It never reads flags, files or environment; logs and returns the same error; labels a metric with the name of an
// object; or requeues an object whose problem needs a human.
package kit
