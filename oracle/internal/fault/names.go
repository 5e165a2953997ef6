package fault

// NotMade is the name of the fault that leaves a state as it was.
const NotMade = "step not made"

// Frozen is the name of the fault that keeps one realization as it was. A sample
// of which the operator makes zeros is so too, where the policy adds them.
const Frozen = "realization stands still"
