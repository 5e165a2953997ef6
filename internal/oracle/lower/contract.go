package lower

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/refrun/refrun/graph"
)

// Contract says which of a claim's roundings a device has.
type Contract struct {
	Name      string // "" for the claim's own
	operands  bool   // those of the operands of products, by autocast
	wide      bool   // of these the parameters alone
	stores    func(op graph.Op) bool
	kernels   bool            // what is made and read within one kernel is read before it is stored
	pure      bool            // without autocast: weights, inputs and all results are of the half type
	apart     bool            // biases of transposed convolutions are added to sums that are stored
	chained   bool            // what one operation alone reads that is no product is not stored
	peeled    bool            // biases of convolutions are added in float32, unrounded, by the kernel after the product
	joins     bool            // an attention's projection is one kernel with the scaling of its query
	inPlace   bool            // sums are stored in the half type of a term
	steps     bool            // the products of a recurrent layer's step are one sum
	wideBias  bool            // and that of its biases is not stored
	constants bool            // what constants alone make is made and stored in the half type, when a network is loaded
	inSteps   bool            // a softmax under a mask stores what it makes of each number
	also      kind            // what it does besides
	turned    map[choice]bool // what it does otherwise
}

// choice is one thing that right devices of a claim may do or leave.
type choice struct {
	of    kind
	node  int // that does it
	value int // of which it is one
}

// kind is one of the kinds of choices.
type kind string

const (
	result  kind = ""                              // a result is stored
	operand kind = "as an operand"                 // what a product reads is rounded
	bare    kind = "before its bias"               // a product is stored before its bias is added
	shift   kind = "the bias of"                   // such a bias is rounded
	number  kind = "the constant of"               // a number beside a tensor of a half type is rounded to that type
	within  kind = "before it is stored"           // a kernel reads what it has made before it stores it
	scaled  kind = "before its scale"              // what a norm has normalized is stored
	weights kind = "into the weights of a product" // a batch norm is taken into the weights
)

// Choice is one thing that right devices of a claim may do or leave: a rounding of a result, of an operand or of a
// constant, or a batch norm that is taken into weights.
type Choice struct {
	choice
	Name  string // of the result
	Done  bool   // whether the contract does it
	Idle  bool   // whether that changes nothing, for what another one does
	reads []int  // the values that it depends on
	op    string // the operation's name
}

// Like reports whether a choice is the same of another operation of its kind.
func (c Choice) Like(other Choice) bool { return c.of == other.of && c.op == other.op }

// String says which one it is.
func (c Choice) String() string {
	if c.of == number || c.of == shift {
		return string(c.of) + " " + c.Name
	}
	return strings.TrimSuffix(fmt.Sprintf("%s %s", c.Name, c.of), " ")
}

// Follows reports whether a choice is the next after another one: it depends on that result, or belongs to the same
// node.
func (c Choice) Follows(other Choice) bool {
	if c.node == other.node && c.value == other.value {
		return c.of == result && (other.of == bare || other.of == scaled)
	}
	return other.of == result && slices.Contains(c.reads, other.value)
}

// Turned returns a contract that does otherwise in some choices.
func (k Contract) Turned(some ...Choice) Contract {
	turned := maps.Clone(k.turned)
	if turned == nil {
		turned = map[choice]bool{}
	}
	for _, c := range some {
		if turned[c.choice] {
			delete(turned, c.choice)
		} else {
			turned[c.choice] = true
		}
	}
	k.turned = turned
	return k
}

// products are the operations whose results a compiler leaves to a library, which stores them.
var products = []string{
	"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "linear",
	"matmul", "mm", "bmm",
	"addmm", "baddbmm", "gemm", "einsum", "scaled_dot_product_attention"}

// Contracts are those that right devices of a claim have of a graph: the claim's own first.
func (c Claim) Contracts(g *graph.Graph) []Contract {
	every := func(graph.Op) bool { return true }
	all := []Contract{{operands: true, stores: every}}
	if _, half := c.Narrow(); !half {
		return all
	}
	if c.Halves {
		all = append(all, Contract{Name: "a module in a half type", operands: true, stores: every, pure: true})
	}
	isTransposed := func(n graph.Node) bool { return transposed(&n) }
	if c.Mode.Autocast != graph.NoAutocast && !c.Mode.BiasApart() && slices.ContainsFunc(g.Nodes, isTransposed) {
		all = append(all, Contract{Name: "biases of transposed convolutions added to stored sums",
			operands: true, stores: every, apart: true})
	}
	if len(projections(g)) > 0 {
		all = append(all, c.projected(all, masked(g))...)
	}
	if len(recurrences(g)) > 0 {
		all = append(all, c.recurrent(all[0])...)
	}
	none := func(graph.Op) bool { return false }
	if c.Pure && slices.ContainsFunc(g.Nodes, func(n graph.Node) bool { return foldable(g, &n) }) {
		all = append(all, Contract{Name: "constants folded in the half type", operands: true, stores: every, constants: true},
			Contract{Name: "constants folded in the half type, and all results kept in float32",
				operands: true, stores: none, constants: true})
	}
	return append(all,
		Contract{Name: "what lies between two products is one kernel, which keeps float32",
			operands: true, stores: every, kernels: true},
		Contract{Name: "results of products stored, and what follows them kept in float32",
			operands: true, stores: isProduct},
		Contract{Name: "operands of products rounded, and all results kept in float32", operands: true, stores: none},
		Contract{Name: "float32", stores: none})
}

// Wholes are the contracts of whole networks from which others are looked for, by what they do otherwise.
func (c Claim) Wholes(g *graph.Graph) []Contract {
	all := c.Contracts(g)
	if _, half := c.Narrow(); !half {
		return all
	}
	all = append(all,
		Contract{Name: "parameters of products rounded, and all else kept in float32",
			operands: true, wide: true, stores: func(graph.Op) bool { return false }},
		Contract{Name: "a product and what follows it is one kernel, which stores its last result",
			operands: true, chained: true, stores: all[0].stores},
		Contract{Name: "products stored before their biases, and what lies between two products is one kernel, which " +
			"keeps float32", operands: true, stores: all[0].stores, kernels: true, peeled: true})
	alone := len(all)
	for _, of := range []kind{bare, scaled, number, weights} {
		for _, k := range all[:alone] {
			if of == weights && len(folds(g)) == 0 || of != weights && k.Name != "" {
				break
			}
			k.also = of
			k.Name = named(k.Name, besides[of])
			all = append(all, k)
		}
	}
	return all
}

// besides says in words what else contracts of whole networks do.
var besides = map[kind]string{bare: "biases added to stored products", scaled: "norms stored before their scale",
	number: "constants in the half type", weights: "batch norms in the weights"}

// named is a contract's name with what else it does.
func named(name, besides string) string { return strings.TrimPrefix(name+"; "+besides, "; ") }

func isProduct(op graph.Op) bool { return slices.Contains(products, op.Name()) }

// Whole is the contract of a whole network that a contract is made from.
func (k Contract) Whole() Contract {
	k.turned = nil
	return k
}

// Own reports whether a contract is the claim's own.
func (k Contract) Own() bool { return k.Name == "" && len(k.turned) == 0 }

// Turns reports whether a contract does otherwise in a choice.
func (k Contract) Turns(c Choice) bool { return k.turned[c.choice] }
