package workerpool

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
	"github.com/swarm-io/swarm-operator/internal/roster"
)

// secure takes over the config before any decision is based on it: it exists, empty at first; no other writer has changed it; and this
// leader has raised its fence, so that a late write of an earlier leader is refused.
func (r *reconciler) secure(ctx context.Context, pool *v1alpha1.WorkerPool, world *world) error {
	memory := r.remember(pool)
	if world.published.missing || world.published.torn {
		// A revision that is not in the cache yet may have been published: rebuild from the stored ones.
		var err error
		if world.history, err = r.history(ctx, pool, memory, true); err != nil {
			return err
		}
		if err := r.restore(ctx, pool, world, memory); err != nil {
			return err
		}
	} else if r.unsecured(pool, memory) {
		if err := r.restoreLost(ctx, pool, world, memory); err != nil {
			return err
		}
	}
	term := r.leadership.Term()
	for _, name := range sortedNames(world.published.sheets) {
		sheet := world.published.sheets[name]
		if sheet.fencedIn != term || sheet.object.Labels[v1alpha1.LabelPool] != pool.Name {
			if err := r.write(ctx, pool, sheet, memory); err != nil {
				return err
			}
			world.published.sheets[name] = memory.sheets[name]
		}
	}
	memory.term = term
	return nil
}

// unsecured reports whether the cache may lack a ConfigMap that a former leader created, with the jobs it granted there. Under layout
// Shared there is only one, and the first write of a term is refused if the cache was stale.
func (r *reconciler) unsecured(pool *v1alpha1.WorkerPool, memory *memory) bool {
	return pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker && memory.term != r.leadership.Term()
}

func sortedNames(sheets map[string]*sheet) []string {
	names := make([]string, 0, len(sheets))
	for name := range sheets {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// restore publishes the stored revisions, in place of what is gone or was changed by another writer.
func (r *reconciler) restore(ctx context.Context, pool *v1alpha1.WorkerPool, world *world, memory *memory) error {
	rebuilt := world.rebuilt(pool)
	if pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker && len(rebuilt.file.Workers) == 0 {
		return nil // no worker can have one
	}
	sheets := divided(pool, rebuilt)
	if err := r.reserveLost(ctx, pool, sheets, world.published.sheets); err != nil {
		return err
	}
	restored := published{sheets: map[string]*sheet{}, ledger: roster.Ledger{}}
	for _, name := range sortedNames(sheets) {
		if err := r.write(ctx, pool, sheets[name], memory); err != nil {
			return err
		}
		restored.add(memory.sheets[name], true)
	}
	if len(world.history) > 0 {
		memory.news = append(memory.news, event{reason: "ConfigRestored", message: "the config was deleted, or changed by another client, and was restored from the kept revisions"})
	}
	world.published = restored
	return nil
}

// restoreLost publishes the stored revisions for workers whose own ConfigMap is missing. If it was deleted, they may hold its jobs. If it
// has yet to be created, this is harmless: the worker gets an empty list, and its jobs when it has acknowledged that.
func (r *reconciler) restoreLost(ctx context.Context, pool *v1alpha1.WorkerPool, world *world, memory *memory) error {
	lost := divided(pool, world.rebuilt(pool))
	for name := range world.published.sheets {
		delete(lost, name)
	}
	if err := r.reserveLost(ctx, pool, lost, nil); err != nil {
		return err
	}
	for _, name := range sortedNames(lost) {
		if err := r.write(ctx, pool, lost[name], memory); err != nil {
			return err
		}
		world.published.add(memory.sheets[name], true)
	}
	return nil
}

// reserveLost creates all missing ConfigMaps before the first one is restored, so that a leader that dies in between leaves no part of
// the config that looks complete.
func (r *reconciler) reserveLost(ctx context.Context, pool *v1alpha1.WorkerPool, sheets, existing map[string]*sheet) error {
	for _, name := range sortedNames(sheets) {
		content := sheets[name]
		switch found := existing[name]; {
		case found != nil:
			content.object = found.object
		case len(sheets) > 1 || content.grants():
			object := placeholder(pool, name, false)
			if err := r.client.Create(ctx, object); err != nil {
				return fmt.Errorf("create ConfigMap %q: %w", name, raced(err, name))
			}
			content.object = object
		default:
			content.object = blank(pool, name).object
		}
	}
	return nil
}

// divided splits the sheet of a pool into sheets by name: one for all workers, or one for each.
func divided(pool *v1alpha1.WorkerPool, whole sheet) map[string]*sheet {
	if pool.Spec.Config.Layout != v1alpha1.LayoutPerWorker {
		return map[string]*sheet{pool.ConfigName(): {file: whole.file, ledger: whole.ledger}}
	}
	sheets := make(map[string]*sheet, len(whole.file.Workers))
	for _, entry := range whole.file.Workers {
		own := roster.Ledger{}
		if account, found := whole.ledger[entry.Worker]; found {
			own[entry.Worker] = account
		}
		sheets[pool.ConfigNameOf(entry.Worker)] = &sheet{file: roster.File{Version: entry.Version, Workers: []roster.FileEntry{entry}}, ledger: own}
	}
	return sheets
}

// rebuilt returns what is known of a lost config. If the newest revision had converged as planned, the result is identical to it.
// Otherwise a worker may hold what any revision since the last converged one gave it, and keeps what is in all of them.
func (w world) rebuilt(pool *v1alpha1.WorkerPool) sheet {
	if len(w.history) == 0 {
		return sheet{file: roster.File{Version: w.floor(pool)}, ledger: roster.Ledger{}}
	}
	newest := w.history[len(w.history)-1]
	if !newest.altered && newest.number == pool.Status.ConvergedRevision && newest.data.Version == pool.Status.Version && !w.published.torn {
		return sheet{file: newest.file(), ledger: newest.ledger()}
	}
	records := w.editions(pool.Status.ConvergedRevision)
	for n, record := range records {
		jobs := everywhere(record.Lists)
		if !w.names(record.Worker, pool.Status.ConvergedRevision) {
			jobs = nil // it joined or was to leave: others may hold its planned jobs
		}
		records[n] = record.WithList(w.floor(pool)+1, jobs)
	}
	return sheet{file: filed(records), ledger: roster.NewLedger(records, nil)}
}

// names reports whether every revision starting with a number has a worker.
func (w world) names(worker string, from int64) bool {
	return !slices.ContainsFunc(w.history, func(revision kept) bool {
		has := slices.ContainsFunc(revision.data.Workers, func(share roster.RevisionShare) bool { return share.Worker == worker })
		return revision.number >= from && !has
	})
}

// everywhere returns the jobs that are on all lists, in the order of the last one.
func everywhere(lists []assign.ListVersion) []string {
	jobs := slices.Clone(lists[len(lists)-1].Jobs)
	for _, list := range lists[:len(lists)-1] {
		held := make(map[string]bool, len(list.Jobs))
		for _, job := range list.Jobs {
			held[job] = true
		}
		jobs = slices.DeleteFunc(jobs, func(job string) bool { return !held[job] })
	}
	return jobs
}

// filed returns the published lists of records.
func filed(records []assign.Record) roster.File {
	var file roster.File
	for _, record := range records {
		if len(record.Lists) > 0 {
			last := record.Lists[len(record.Lists)-1]
			file.Version = max(file.Version, last.Version)
			file.Workers = append(file.Workers, roster.FileEntry{Worker: record.Worker, Version: last.Version, Jobs: last.Jobs})
		}
	}
	return file
}

// floor returns the highest version known to be published or planned.
func (w world) floor(pool *v1alpha1.WorkerPool) int64 {
	version := max(pool.Status.Version, w.published.version)
	for _, revision := range w.history {
		version = max(version, revision.data.Version)
	}
	for _, pod := range w.pods {
		nudged, _ := strconv.ParseInt(pod.Annotations[v1alpha1.AnnotationConfigVersion], 10, 64) // 0 if missing
		if believed(nudged) {
			version = max(version, nudged)
		}
	}
	return version
}

// write stores a sheet unless it has changed since it was read.
func (r *reconciler) write(ctx context.Context, pool *v1alpha1.WorkerPool, sheet *sheet, memory *memory) error {
	term, fence := r.leadership.Term(), sheet.fence()
	if known := memory.sheets[sheet.object.Name]; known == nil || known.fencedIn != term {
		if !believed(fence) {
			memory.ignored("the annotation %s of ConfigMap %q was set to %d", v1alpha1.AnnotationFence, sheet.object.Name, fence)
		}
		fence = nextFence(fence)
	}
	object, refused := sheet.written(pool, fence)
	if refused != nil {
		return fmt.Errorf("write ConfigMap %q: %s", sheet.object.Name, refused.message)
	}
	if err := r.put(ctx, pool, object, sheet.grants()); err != nil {
		delete(memory.sheets, sheet.object.Name)
		return fmt.Errorf("write ConfigMap %q: %w", sheet.object.Name, raced(err, object.Name))
	}
	object.ManagedFields = nil // unused, and longer than the rest
	stored := read(object, pool.Spec.Config.Key)
	stored.fencedIn = term
	memory.sheets[object.Name] = stored
	return nil
}

// put stores a ConfigMap. One that grants jobs is created without them first: the API server may carry out a Create of a former leader at
// any later time, but refuses an Update once another leader has raised the fence.
func (r *reconciler) put(ctx context.Context, pool *v1alpha1.WorkerPool, object *corev1.ConfigMap, grants bool) error {
	switch {
	case object.ResourceVersion != "":
		return r.client.Update(ctx, object)
	case !grants:
		return r.client.Create(ctx, object)
	}
	reserved := placeholder(pool, object.Name, true)
	if err := r.client.Create(ctx, reserved); err != nil {
		return err
	}
	object.UID, object.ResourceVersion = reserved.UID, reserved.ResourceVersion
	return r.client.Update(ctx, object)
}

// raced turns the errors that mean that the world has changed since it was read into a conflict.
func raced(err error, name string) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return apierrors.NewConflict(schema.GroupResource{}, name, err)
	}
	return err
}
