package main

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/swarm-io/swarm-operator/internal/assign"
)

// topic is the one of which all jobs are partitions.
const topic = "jobs"

// balanced does what a Kafka consumer group does. The members' messages are created and read outside of the measured time.
func balanced(in pool, before *answer) func() answer {
	var owned []int32
	if before != nil {
		owned = before.owners()
	}
	round := prepared(in, owned)
	return func() answer {
		plan := round()
		return answer{owners: func() []int32 { return agreed(in, plan) }}
	}
}

// prepared is one round of balancing among members that own partitions.
func prepared(in pool, owned []int32) func() *kgo.BalancePlan {
	balancer := kgo.CooperativeStickyBalancer()
	parts := map[int32][]int32{}
	for partition, owner := range owned {
		parts[owner] = append(parts[owner], int32(partition))
	}
	var members []kmsg.JoinGroupResponseMember
	for _, worker := range in.workers {
		joined := kmsg.NewJoinGroupResponseMember()
		joined.MemberID = worker.Name
		current := map[string][]int32{}
		if mine := parts[int32(worker.Ordinal)]; len(mine) > 0 {
			current[topic] = mine
		}
		joined.ProtocolMetadata = balancer.JoinGroupMetadata([]string{topic}, current, 1)
		members = append(members, joined)
	}
	balance, _, err := balancer.MemberBalancer(members)
	if err != nil {
		panic(fmt.Errorf("join members: %w", err)) // all messages are created here
	}
	group := balance.(kgo.GroupMemberBalancerOrError)
	return func() *kgo.BalancePlan {
		plan, err := group.BalanceOrError(map[string]int32{topic: int32(len(in.names))})
		if err != nil {
			panic(fmt.Errorf("balance: %w", err))
		}
		return plan.(*kgo.BalancePlan)
	}
}

// agreed returns the final owners: what was revoked in the first round is assigned in a second.
func agreed(in pool, plan *kgo.BalancePlan) []int32 {
	owners := ownersIn(in.workers, plan, len(in.names))
	if slices.Contains(owners, none) {
		owners = ownersIn(in.workers, prepared(in, owners)(), len(in.names))
	}
	return owners
}

func ownersIn(workers []assign.Worker, plan *kgo.BalancePlan, jobs int) []int32 {
	owners := slices.Repeat([]int32{none}, jobs)
	assigned := plan.AsMemberIDMap()
	for _, worker := range workers {
		for _, partition := range assigned[worker.Name][topic] {
			owners[partition] = int32(worker.Ordinal)
		}
	}
	return owners
}
