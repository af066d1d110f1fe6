package handover

import "github.com/swarm-io/swarm-operator/test/model/explore"

// world has what happens to the pool, to the workload and to leadership.
func (t *transition) world() {
	for worker := range uint8(workers) {
		t.Fault(&t.left.Plans, explore.Step{Action: plan, Subject: worker}, func() bool { return t.planFor(worker) })
	}
	t.Fault(&t.left.LeaderChanges, explore.Step{Action: changeLeader}, t.leaderChanges)
	t.Fault(&t.left.Orphanings, explore.Step{Action: orphanPods}, t.podsAreOrphaned)
	t.Step(admitPod, 2, 0, t.podIsAdmitted)
	t.Step(failCreate, 2, 0, func() bool { return change(&t.create, create{}) })
	t.Step(createPod, 2, 0, func() bool { return t.podIsCreated(t.config.records[t.Scenario.workerOf(2)].list) })
	t.Step(createPod, 2, 1, func() bool { return t.podIsCreated(t.previous[t.Scenario.workerOf(2)]) })
}

// planFor stores a revision in which another worker has the job. Its pod need not exist at the moment.
func (t *transition) planFor(worker uint8) bool {
	known := worker < 2 || t.Scenario.Deployment && t.pods[2].exists
	if !known || t.config.target == worker {
		return false
	}
	t.config.target = worker
	t.cachesFollow()
	return true
}

// leaderChanges makes the other replica the leader. A write of the former one may arrive late; it sends nothing more.
func (t *transition) leaderChanges() bool {
	t.leader, t.prepared, t.ledger = 1-t.leader, false, 0
	t.late, t.write = t.write, write{}
	return true
}

func (t *transition) podsAreOrphaned() bool {
	for n := range t.pods {
		t.pods[n].selected = false
	}
	return true
}

// podIsAdmitted is the first half of a create: admission writes the version below which pod 2 starts nothing. The object is stored later,
// or never.
func (t *transition) podIsAdmitted() bool {
	missing := !t.pods[0].exists || t.Scenario.Deployment && !t.pods[0].selected
	if t.pods[2].exists || t.pods[2].over || !missing {
		return false
	}
	worker := t.Scenario.workerOf(2)
	admitted := create{active: true, after: t.config.records[worker].list.version}
	switch {
	case t.Rules.Has(NewPodFloor) && t.Rules.Has(FloorPastCache):
		admitted.floor = admitted.after
	case t.Rules.Has(NewPodFloor): // any replica may serve admission
		admitted.floor = t.caches[1-t.leader].config.records[worker].list.version
	}
	return change(&t.create, admitted)
}

// podIsCreated stores pod 2 as it was admitted, with a file that the kubelet of its node may have had for a while.
func (t *transition) podIsCreated(file list) bool {
	if !t.create.active {
		return false
	}
	t.pods[2] = pod{exists: true, selected: true, alive: true, file: file, floor: t.create.floor}
	t.create = create{}
	t.cachesFollow()
	return true
}

// pod has what happens to a pod, and what the process in it does.
func (t *transition) pod(n uint8) {
	if !t.pods[n].exists {
		return
	}
	t.Fault(&t.left.Deletions, explore.Step{Action: deletePod, Subject: n}, func() bool { return change(&t.pods[n].terminating, true) })
	t.Fault(&t.left.Releases, explore.Step{Action: releasePod, Subject: n}, func() bool { return change(&t.pods[n].selected, false) })
	t.Fault(&t.left.LostNodes, explore.Step{Action: loseNode, Subject: n}, func() bool { return change(&t.pods[n].failed, true) })
	t.Fault(&t.left.ContainerRestarts, explore.Step{Action: restartContainer, Subject: n}, func() bool { return t.restarts(&t.pods[n]) })
	t.Step(adoptPod, n, 0, func() bool { return !t.Scenario.Deployment && change(&t.pods[n].selected, true) })
	t.Step(endPod, n, 0, func() bool { return t.podEnds(&t.pods[n]) })
	t.Step(syncFile, n, 0, func() bool { return t.fileFollows(n) })
	t.Step(loadFile, n, 0, func() bool { return t.loads(&t.pods[n]) })
	t.Step(stopJob, n, 0, func() bool { return t.stops(&t.pods[n]) })
}

func change[T comparable](field *T, value T) bool {
	changed := *field != value
	*field = value
	return changed
}

// podEnds completes a graceful deletion: first the process ends, then the object is removed.
func (t *transition) podEnds(p *pod) bool {
	if !p.terminating {
		return false
	}
	*p = pod{over: true}
	t.cachesFollow()
	return true
}

// restarts starts over with the existing file.
func (t *transition) restarts(p *pod) bool {
	if p.terminating {
		return false
	}
	p.runs, p.loaded, p.restarted = false, 0, true
	return true
}

// fileFollows is when the kubelet writes the newest list into the pod.
func (t *transition) fileFollows(n uint8) bool {
	worker := t.Scenario.workerOf(n)
	return t.config.versions[t.Scenario.objectOf(worker)] != 0 && change(&t.pods[n].file, t.config.records[worker].list)
}

// loads makes the process read its file. It stops jobs that are not on the list before it reports the list as loaded, and
// ignores a file that is older than the floor of its pod.
func (t *transition) loads(p *pod) bool {
	if p.file.version < p.floor || p.loaded == p.file.version {
		return false
	}
	p.loaded = p.file.version
	if p.file.has || t.Rules.Has(StopBeforeAcknowledge) {
		p.runs = p.file.has
	}
	t.checkOwners()
	return true
}

// stops ends a job that the process has acknowledged as stopped.
func (t *transition) stops(p *pod) bool {
	return p.loaded == p.file.version && !p.file.has && change(&p.runs, false)
}
