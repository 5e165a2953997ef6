package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

var completionVerb = verb{
	name:    "completion",
	args:    "bash|zsh|fish",
	summary: "a script with which a shell completes verbs and flags",
	help: `Prints a script for a shell, which completes the verbs, their flags, and names of
files. Bash and zsh read it in their profile:

  source <(refrun completion bash)        # in ~/.bashrc
  source <(refrun completion zsh)         # in ~/.zshrc
  refrun completion fish >~/.config/fish/completions/refrun.fish

example: refrun completion bash`,
	run: completion,
}

func completion(c *command) error {
	if err := c.parse(1); err != nil {
		return err
	}
	write, ok := map[string]func(w io.Writer, verbs []verb){
		"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion,
	}[c.pos[0]]
	if !ok {
		return fmt.Errorf("%.60q: want bash, zsh or fish", c.pos[0])
	}
	if c.json {
		return fmt.Errorf("--json: a script is no JSON: want it without")
	}
	write(c.stdout, c.all)
	return nil
}

// each calls f with every verb and its flags. Verbs declare their flags as they begin, and say
// that help was asked for.
func eachVerb(verbs []verb, f func(v verb, flags []*flag.Flag)) {
	all := slices.Clone(verbs)
	for _, v := range verbs {
		all = append(all, v.parts...)
	}
	for _, v := range all {
		c := &command{verb: v, all: verbs, flags: flag.NewFlagSet(v.name, flag.ContinueOnError),
			stdout: io.Discard, stderr: io.Discard}
		_ = v.run(c.parseLater([]string{"--help"}))
		var flags []*flag.Flag
		c.flags.VisitAll(func(of *flag.Flag) { flags = append(flags, of) })
		f(v, flags)
	}
}

// choices are the values that some flags take.
var choices = []struct{ flag, values string }{
	{"precision", "float64 float32 tf32 float16 bfloat16"},
	{"autocast", "cuda cpu"},
	{"isa", "auto avx512 avx2 neon purego"},
	{"arith", "exact fast"},
	{"store", "float64 float32 float16 bfloat16"},
	{"x0", "zeros white:"},
}

// dashed returns a flag as people write it.
func dashed(f *flag.Flag) string { return strings.Repeat("-", min(2, len(f.Name))) + f.Name }

func bashCompletion(w io.Writer, verbs []verb) {
	var parts []string
	for _, v := range verbs {
		for _, part := range v.parts {
			parts = append(parts, strings.TrimPrefix(part.name, "dataset "))
		}
	}
	var values strings.Builder
	for _, c := range choices {
		fmt.Fprintf(&values, "\t--%s) words=%q ;;\n", c.flag, c.values)
	}
	fmt.Fprintf(w, `# Completes refrun: source <(refrun completion bash)
_refrun() {
	local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} words=
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		COMPREPLY=($(compgen -W "%s help" -- "$cur"))
		return
	fi
	if [ "$verb" = dataset ]; then
		if [ "$COMP_CWORD" = 2 ]; then
			COMPREPLY=($(compgen -W "%s" -- "$cur"))
			return
		fi
		verb="dataset ${COMP_WORDS[2]}"
	fi
	case ${COMP_WORDS[COMP_CWORD-1]} in
%s	esac
	if [ "$words" ]; then
		COMPREPLY=($(compgen -W "$words" -f -- "$cur"))
		return
	fi
	case $verb in
`, strings.Join(verbNames(verbs), " "), strings.Join(parts, " "), values.String())
	eachVerb(verbs, func(v verb, flags []*flag.Flag) {
		var words []string
		for _, f := range flags {
			words = append(words, dashed(f))
		}
		if v.name == "completion" {
			words = append(words, "bash", "zsh", "fish")
		}
		fmt.Fprintf(w, "\t%q) words=%q ;;\n", v.name, strings.Join(words, " "))
	})
	fmt.Fprintf(w, `	help) words=%q ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
	case $cur in
	-*) ;;
	*) COMPREPLY+=($(compgen -f -- "$cur")) ;;
	esac
}
complete -o filenames -F _refrun refrun
`, strings.Join(verbNames(verbs), " "))
}

func zshCompletion(w io.Writer, verbs []verb) {
	fmt.Fprint(w, "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\nautoload -Uz bashcompinit "+
		"&& bashcompinit\n")
	bashCompletion(w, verbs)
}

func fishCompletion(w io.Writer, verbs []verb) {
	quoted := func(s string) string {
		return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", `\'`) + "'"
	}
	fmt.Fprint(w, "# Completes refrun: refrun completion fish >~/.config/fish/completions/refrun.fish\n")
	for _, v := range verbs {
		fmt.Fprintf(w, "complete -c refrun -n __fish_use_subcommand -f -a %s -d %s\n", v.name, quoted(v.summary))
	}
	eachVerb(verbs, func(v verb, flags []*flag.Flag) {
		of, part, inner := strings.Cut(v.name, " ")
		seen := "__fish_seen_subcommand_from " + of
		if inner {
			fmt.Fprintf(w, "complete -c refrun -n '%s' -f -a %s -d %s\n", seen, part, quoted(v.summary))
			seen += "; and __fish_seen_subcommand_from " + part
		}
		for _, f := range flags {
			_, text := flag.UnquoteUsage(f)
			kind := "-l"
			if len(f.Name) == 1 {
				kind = "-s"
			}
			takes := " -r" // a value, which is a file's name where nothing else is known
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
				takes = ""
			}
			for _, c := range choices {
				if c.flag == f.Name {
					takes = " -r -a " + quoted(c.values)
				}
			}
			fmt.Fprintf(w, "complete -c refrun -n '%s' %s %s%s -d %s\n", seen, kind, f.Name, takes, quoted(text))
		}
	})
	fmt.Fprintf(w, "complete -c refrun -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n")
	fmt.Fprintf(w, "complete -c refrun -n __fish_use_subcommand -f -a help -d 'what a verb does'\n")
	fmt.Fprintf(w, "complete -c refrun -n '__fish_seen_subcommand_from help' -f -a '%s'\n",
		strings.Join(verbNames(verbs), " "))
}
