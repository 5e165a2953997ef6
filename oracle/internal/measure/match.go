// Package measure has what differences are measured with: sums over the parts of a state in which a fault may sit, and
// moments. It is arithmetic on slices of numbers, and knows nothing of devices and faults.
package measure

// LeastT is what an amplitude must be, in its standard deviations, to be a fault's. A normal
// number is beyond 8 once in 10^15 times, and if sigma is too small by a fifth, once in
// 6*10^9: there are hundreds of hypotheses, and as many steps.
const LeastT = 8
