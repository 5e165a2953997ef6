package table

// NotMade is the ID of the fault that leaves a state as it was.
const NotMade = "rollout.step-not-made"

// Frozen is the ID of the fault that keeps one realization as it was. A sample
// of which the operator makes zeros is so too, where the policy adds them.
const Frozen = "rollout.realization-stands-still"
