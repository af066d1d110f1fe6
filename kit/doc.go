// Package kit is the small layer that every controller of ours stands on, and yours can: typed reconcilers over
// controller-runtime, with results that give reasons, finalizers, one status write, and a leader that cannot act once it
// is no longer the leader.
//
// What it promises:
//   - A reconciler receives the object, never a key: a copy that it may change, as the cache knows it. An object that is
//     gone is silence, and so is a write that lost a race (conflict): both are looked at again, neither is an error.
//   - An event that arrives during a reconcile is never lost; a hundred of them cost one more reconcile. No two
//     reconciles of one object run at once, and no more than Concurrency of all.
//   - Status is written in one merge patch that names the resource version it was computed from, and not at all when
//     nothing changed. Events are sent after that patch succeeded, never before, with the reason of the condition.
//   - The finalizer is on the object before the reconciler sees it, and comes off only when the cleanup said so.
//   - Caches are synced before the program is ready, it is ready before it stands for election, and it is elected before
//     any controller runs. Caches that do not sync in time end the program.
//   - A leader whose last renewal of the Lease is older than the renew deadline writes nothing: new writes are refused
//     with ErrNotLeading, those under way are given up, and the program ends. The renewal counts from its sending, and
//     the renew deadline is two thirds of the lease, so the old leader is silent before the next one can begin.
//   - A panic in a reconcile is an error of that object, counted, and not the end of the program.
//
// What it never does: read flags, files or environment; log and return the same error; label a metric with the name of
// an object; requeue an object whose problem needs a human.
package kit
