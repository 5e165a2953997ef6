// Package oracle judges numbers from elsewhere against arithmetic: whether a trajectory
// that a GPU kernel wrote is what its claimed precision gives, and if not, which step,
// realization and layer is wrong, and the fault that it looks like.
//
//	report, err := oracle.Check(ctx, op, states, oracle.Claim{Mode: mode, Rollout: config})
//	fmt.Println(report.Verdict)
//
// In a test, [RequirePass] is the same in one line. Each step is judged from the state
// before it, as the device wrote it, so that chaos does not matter. Limits follow from
// error bounds and from simulated correct devices, not from what passed elsewhere. The
// verdict of a [report.Report] is a pass, a failure with its kind, or that a gate had too
// little to tell (docs/ORACLE.md).
//
//   - [Check] and [CheckCase] judge a trajectory, in memory or recorded as a case.
//   - [CheckNetwork] judges one evaluation of any network, and [CheckKernel] one call of a kernel.
//   - [CheckOneStep] gives the plain differences of single steps, without a verdict.
//   - Package [github.com/refrun/refrun/oracle/report] is what a check found; [Write] writes it.
//   - [WriteProbes] writes inputs that show how a device computes.
//
// A claim that cannot belong to a trajectory, or a file that cannot be read, is an error
// of one line; whatever is wrong with the numbers is in the report.
package oracle
