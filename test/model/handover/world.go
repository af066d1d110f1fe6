package handover

import "github.com/swarm-io/swarm-operator/test/model/explore"

// worldSteps has what happens to the pool, to the workload and to leadership.
func (t *transition) worldSteps() {
	for worker := range uint8(workers) {
		t.Fault(&t.remainingFaults.Plans, explore.Step{Action: plan, Subject: worker}, func() bool { return t.planMove(worker) })
	}
	t.Fault(&t.remainingFaults.LeaderChanges, explore.Step{Action: changeLeader}, t.changeLeader)
	t.Fault(&t.remainingFaults.Orphanings, explore.Step{Action: orphanPods}, t.orphanPods)
	t.Step(admitPod, 2, 0, t.admitPod)
	t.Step(failCreate, 2, 0, func() bool { return change(&t.create, create{}) })
	t.Step(createPod, 2, 0, func() bool { return t.createPod(t.config.records[t.Scenario.workerOf(2)].list) })
	t.Step(createPod, 2, 1, func() bool { return t.createPod(t.previous[t.Scenario.workerOf(2)]) })
}

// planMove stores a revision in which another worker has the job. Its pod need not exist at the moment.
func (t *transition) planMove(worker uint8) bool {
	known := worker < 2 || t.Scenario.Deployment && t.pods[2].exists
	if !known || t.config.target == worker {
		return false
	}
	t.config.target = worker
	t.syncCaches()
	return true
}

// changeLeader makes the other replica the leader. A write of the former one may arrive late; it sends nothing more.
func (t *transition) changeLeader() bool {
	t.leader, t.termBegun, t.mayHoldInMemory = 1-t.leader, false, 0
	t.lateWrite, t.write = t.write, write{}
	return true
}

func (t *transition) orphanPods() bool {
	for n := range t.pods {
		t.pods[n].selected = false
	}
	return true
}

// admitPod is the first half of a create: admission writes the version below which pod 2 starts nothing. The object is stored later,
// or never.
func (t *transition) admitPod() bool {
	missing := !t.pods[0].exists || t.Scenario.Deployment && !t.pods[0].selected
	if t.pods[2].exists || t.pods[2].ended || !missing {
		return false
	}
	worker := t.Scenario.workerOf(2)
	pending := create{active: true, publishedVersion: t.config.records[worker].list.version}
	switch {
	case t.Rules.Has(NewPodFloor) && t.Rules.Has(FloorPastCache):
		pending.minVersion = pending.publishedVersion
	case t.Rules.Has(NewPodFloor): // any replica may serve admission
		pending.minVersion = t.caches[1-t.leader].config.records[worker].list.version
	}
	return change(&t.create, pending)
}

// createPod stores pod 2 as it was admitted, with a file that the kubelet of its node may have had for a while.
func (t *transition) createPod(file list) bool {
	if !t.create.active {
		return false
	}
	t.pods[2] = pod{exists: true, selected: true, alive: true, file: file, minVersion: t.create.minVersion}
	t.create = create{}
	t.syncCaches()
	return true
}

// pod has what happens to a pod, and what the process in it does.
func (t *transition) pod(n uint8) {
	if !t.pods[n].exists {
		return
	}
	t.Fault(&t.remainingFaults.Deletions, explore.Step{Action: deletePod, Subject: n},
		func() bool { return change(&t.pods[n].terminating, true) })
	t.Fault(&t.remainingFaults.Releases, explore.Step{Action: releasePod, Subject: n},
		func() bool { return change(&t.pods[n].selected, false) })
	t.Fault(&t.remainingFaults.LostNodes, explore.Step{Action: loseNode, Subject: n}, func() bool { return change(&t.pods[n].failed, true) })
	t.Fault(&t.remainingFaults.ContainerRestarts, explore.Step{Action: restartContainer, Subject: n},
		func() bool { return t.restartContainer(&t.pods[n]) })
	t.Step(adoptPod, n, 0, func() bool { return !t.Scenario.Deployment && change(&t.pods[n].selected, true) })
	t.Step(endPod, n, 0, func() bool { return t.endPod(&t.pods[n]) })
	t.Step(syncFile, n, 0, func() bool { return t.syncFile(n) })
	t.Step(loadFile, n, 0, func() bool { return t.loadFile(&t.pods[n]) })
	t.Step(stopJob, n, 0, func() bool { return t.stops(&t.pods[n]) })
}

func change[T comparable](field *T, value T) bool {
	changed := *field != value
	*field = value
	return changed
}

// endPod completes a graceful deletion: first the process ends, then the object is removed.
func (t *transition) endPod(p *pod) bool {
	if !p.terminating {
		return false
	}
	*p = pod{ended: true}
	t.syncCaches()
	return true
}

// restartContainer starts over with the existing file.
func (t *transition) restartContainer(p *pod) bool {
	if p.terminating {
		return false
	}
	p.runsJob, p.loadedVersion, p.restarted = false, 0, true
	return true
}

// syncFile is when the kubelet writes the newest list into the pod.
func (t *transition) syncFile(n uint8) bool {
	worker := t.Scenario.workerOf(n)
	return t.config.versions[t.Scenario.objectOf(worker)] != 0 && change(&t.pods[n].file, t.config.records[worker].list)
}

// loadFile makes the process read its file. It stops jobs that are not on the list before it reports the list as loaded, and
// ignores a file that is older than the floor of its pod.
func (t *transition) loadFile(p *pod) bool {
	if p.file.version < p.minVersion || p.loadedVersion == p.file.version {
		return false
	}
	p.loadedVersion = p.file.version
	if p.file.hasJob || t.Rules.Has(StopBeforeAcknowledge) {
		p.runsJob = p.file.hasJob
	}
	t.checkOwners()
	return true
}

// stops ends a job that the process has acknowledged as stopped.
func (t *transition) stops(p *pod) bool {
	return p.loadedVersion == p.file.version && !p.file.hasJob && change(&p.runsJob, false)
}
