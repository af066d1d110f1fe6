package dispatch

// single has each fault once, by name. An outage lasts until others may take the Lease.
var single = []struct {
	name string
	add  func(*Faults)
}{
	{"process ends", func(f *Faults) { f.ProcessEnds++ }},
	{"Agent deleted", func(f *Faults) { f.AgentDeletions++ }},
	{"pod replaced", func(f *Faults) { f.PodReplacements++ }},
	{"second process", func(f *Faults) { f.SecondProcesses++ }},
	{"leader crashes", func(f *Faults) { f.LeaderCrashes++ }},
	{"leader stops", func(f *Faults) { f.LeaderReleases++ }},
	{"Lease deleted", func(f *Faults) { f.LeaseDeletions++ }},
	{"outage", func(f *Faults) { f.Outages += leaseDuration }},
	{"answer lost", func(f *Faults) { f.LostAnswers++ }},
	{"suspension", func(f *Faults) { f.Suspensions++ }},
	{"partial Hello", func(f *Faults) { f.PartialHellos++ }},
	{"failure", func(f *Faults) { f.Failures++ }},
	{"goodbye", func(f *Faults) { f.Goodbyes++ }},
	{"cancel", func(f *Faults) { f.Cancels++ }},
}

// FaultPairs returns a scenario for every two faults, including the same one twice. Most defects of a protocol need two faults,
// and a search with only these gets further than one with all.
func FaultPairs() []Scenario {
	var scenarios []Scenario
	for n, first := range single {
		for _, second := range single[n:] {
			scenario := Scenario{
				Name: first.name + ", " + second.name, CachesLag: true, WritesLag: true,
				Connections: 2, Assignments: 2, Terms: 3, Leases: [2]uint8{1, 1},
			}
			first.add(&scenario.Faults)
			second.add(&scenario.Faults)
			scenarios = append(scenarios, scenario)
		}
	}
	return scenarios
}
