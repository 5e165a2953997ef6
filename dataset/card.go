package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
)

const cardName = "README.md"

// cardLead begins every card: a README.md that begins otherwise is someone's own.
const cardLead = "<!-- written by refrun dataset merge -->\n"

// WriteCard writes README.md for people who are given the folder: what it holds, what it is
// identified by, how it is loaded, verified and cited. It follows from the plan and from the
// SHA-256 of the manifest, and is in no hash. One that says so already, and one that somebody
// else wrote, are left alone.
func (p *Dataset) WriteCard(manifest string) error {
	path := filepath.Join(p.Dir, cardName)
	text, err := p.card(manifest)
	if err != nil {
		return err
	}
	was, err := readFile(path, 16<<20)
	if _, e := disk.Lstat(path); e == nil &&
		(err != nil || !bytes.HasPrefix(was, []byte(cardLead)) || bytes.Equal(was, text)) {
		return nil
	}
	if err := disk.WriteFile(path, text, 0o666); err != nil {
		return fmt.Errorf("%s: %w", path, fault.Cause(err))
	}
	return nil
}

func (p *Dataset) card(manifest string) ([]byte, error) {
	one := fault.Markdown
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	b.WriteString(cardLead)
	line("# %s\n", one(p.Name))
	line("%d sampled operators and their rollouts. Every number can be computed again, on any machine, "+
		"to the same bits.\n", p.Units)
	line("| | |\n|---|---|")
	if dims, err := p.same(); err == nil {
		line("| realizations, states, channels, height, width | %d, %d, %d, %d, %d |",
			dims[0], dims[1], dims[2], dims[3], dims[4])
	}
	stored := "what is measured of the states"
	if p.units.States {
		stored = "states in " + p.units.Store.String() + ", and what is measured of them"
	}
	line("| a file for each operator | units/, %s: %s |", p.units.File, stored)
	line("| points | %s, %d dimensions |", p.units.points.Method, p.units.points.Dims)
	line("| made by | %s, contract %s |", one(p.MadeBy), p.Contract)
	line("| identity (SHA-256 of what decides the numbers) | %s |", p.Identity)
	line("| SHA-256 of manifest.jsonl (what was made of it) | %s |", manifest)
	line("\nplan.json and plan.jsonl say what each operator is, manifest.jsonl the seal and the digest of each file.")
	line("\n## Load\n\n```python\nimport refrun\nset = refrun.Dataset(\"DIR\")  # this folder")
	if p.units.States {
		line("set[0][\"states\"]             # [realization, time, channel, y, x]")
	}
	line("set[0][\"metrics\"]            # name to [realization, time]\n" +
		"set.parameters(0)            # operator, rollout, initial condition, seeds\n```")
	line("\nFiles for other programs: `refrun dataset merge DIR -o all.h5`, " +
		"`refrun dataset export DIR --format zarr -o FOLDER`.")
	line("\n## Verify\n\n```\nrefrun dataset verify DIR --read --recompute 10\n```")
	line("\n## Cite\n\n> %s: %d operators and their rollouts, made by %s, contract %s. Identity %s.",
		one(p.Name), p.Units, one(p.MadeBy), p.Contract, p.Identity)
	for i, n := range p.Notes {
		if i == 0 {
			line("\n## Notes\n")
		}
		line("- %s", one(n))
	}
	var spec bytes.Buffer
	if err := json.Indent(&spec, p.Spec, "", "  "); err != nil {
		return nil, err
	}
	line("\n## Specification\n\n```json\n%s\n```", fault.PlainJSON(spec.Bytes()))
	return b.Bytes(), nil
}
