// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/inventory"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

// stdin is the name of the standard input among files.
const stdin = "-"

type createCommand struct {
	*session
	print     *genericclioptions.PrintFlags
	file      string
	values    []fieldFlag
	username  string
	password  string // the name of a file
	dryRun    string
	conflicts bool
	// isNew is set if there must be no other host of that name.
	isNew bool
}

// fieldFlag is a flag that sets a field of a machine.
type fieldFlag struct {
	field *inventory.Field
	flag  *pflag.Flag
}

func newCreateCommand(s *session) *cobra.Command {
	c := &createCommand{session: s, print: newPrintFlags()}
	cmd := &cobra.Command{
		Use:     "create (NAME --address ADDRESS | -f INVENTORY)",
		GroupID: groupEnrol,
		Short:   "Create hosts and the Secrets with their passwords",
		Long: `Creates a host and a Secret with the user name and the password of its BMC, or those of a whole inventory.
Hosts that exist are changed to what is given, and nothing else of them is (server-side apply), so
an inventory can be applied again after a correction. To remove something, use kubectl edit or kubectl apply.

Passwords are never arguments, which other users of the machine can see. They come from a file, from stdin
(--password-file -), from the inventory, or from a prompt.

An inventory is a CSV file whose first line names the fields, or a list in YAML or JSON. These are the fields:
  ` + fieldNames() + `
It can also be a manifest of BareMetalHosts and their Secrets, metal3-dev-env's ironic_nodes.json, or an
install-config.yaml of OpenShift with hosts. The format is found out from the contents.
A line with a mistake is reported with its number and does not stop the others; the exit code is 1 then.`,
		Example: `  kubectl bmh create worker-1 --address ipmi://192.168.111.1:6232 --username admin --boot-mac 00:6c:f2:66:00:fc
  kubectl bmh create worker-1 --address ipmi://192.168.111.1:6232 --username admin --password-file pw --dry-run=client -o yaml
  kubectl bmh create -f rack7.csv -n metal3 --dry-run=server
  kubectl bmh create -f rack7.csv -n metal3`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	c.print.AddFlags(cmd)
	cmd.Flags().StringVarP(&c.file, "filename", "f", "", "An inventory in CSV, YAML or JSON, or a manifest of BareMetalHosts; - is stdin")
	cmd.Flags().StringVar(&c.dryRun, "dry-run", dryRunNone, "none, client (only print), or server (the server checks everything and stores nothing)")
	cmd.Flags().BoolVar(&c.conflicts, "force-conflicts", false, "Take over fields that another user or program has set")
	for i := range inventory.Fields {
		field := &inventory.Fields[i]
		switch {
		case field.Flag == "":
			continue
		case field.Name == "username":
			cmd.Flags().StringVar(&c.username, field.Flag, "", field.Usage)
			continue
		case field.Name == "passwordFile":
			cmd.Flags().StringVar(&c.password, field.Flag, "", field.Usage)
			continue
		}
		cmd.Flags().String(field.Flag, "", field.Usage)
		flag := cmd.Flags().Lookup(field.Flag)
		if field.IsBool {
			flag.NoOptDefVal = "true"
		}
		c.values = append(c.values, fieldFlag{field, flag})
	}
	completeFlag(cmd, "dry-run", completeWords(dryRunNone, dryRunClient, dryRunServer))
	completeFlag(cmd, "boot-mode", completeWords(string(metal3.UEFI), string(metal3.UEFISecureBoot), string(metal3.Legacy)))
	completeFlag(cmd, "inspection-mode", completeWords(string(metal3.InspectionModeAgent), string(metal3.InspectionModeFast), string(metal3.InspectionModeDisabled)))
	completeFlag(cmd, "automated-cleaning-mode", completeWords(string(metal3.CleaningModeMetadata), string(metal3.CleaningModeDisabled)))
	return cmd
}

func fieldNames() string {
	var names []string
	for _, f := range inventory.Fields {
		names = append(names, f.Name)
	}
	half := len(names) / 2
	return strings.Join(names[:half], ", ") + ",\n  " + strings.Join(names[half:], ", ")
}

func (c *createCommand) run(ctx context.Context, args []string) error {
	if err := c.check(args); err != nil {
		return err
	}
	namespace, isAskedFor, err := c.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	entries, mistakes, dir, err := c.entries(args, namespace)
	if err != nil {
		return err
	}
	if isAskedFor {
		entries = slices.DeleteFunc(entries, func(entry inventory.Entry) bool {
			isElsewhere := entry.Namespace != "" && entry.Namespace != namespace
			if isElsewhere {
				mistakes = append(mistakes, &inventory.LineError{
					Line: entry.Line, Name: entry.Name, Err: fmt.Errorf("its namespace is %s, and --namespace asks for %s", entry.Namespace, namespace),
				})
			}
			return isElsewhere
		})
	}
	common, err := c.credentials(ctx, entries)
	if err != nil {
		return err
	}
	objects, wrong := inventory.Prepare(entries, common, namespace, passwordFilesIn(dir))
	mistakes = append(mistakes, wrong...)
	c.report(mistakes)
	made, err := c.apply(ctx, objects)
	if err != nil {
		return err
	}
	if c.file != "" {
		hosts := len(objects)
		for _, mistake := range mistakes {
			if !mistake.IsOther {
				hosts++
			}
		}
		fmt.Fprintf(c.ErrOut, "%d of %s %s\n", made, view.Plural(hosts, "host"), c.done())
	}
	if len(mistakes) > 0 || made < len(objects) {
		return errReported
	}
	return nil
}

// maxMistakes is how many lines with mistakes are printed. If there are more, they mostly have the same one.
const maxMistakes = 100

// report prints the mistakes in the order of their lines.
func (c *createCommand) report(mistakes []*inventory.LineError) {
	slices.SortStableFunc(mistakes, func(a, b *inventory.LineError) int { return cmp.Compare(a.Line, b.Line) })
	for _, mistake := range mistakes[:min(len(mistakes), maxMistakes)] {
		fmt.Fprintln(c.ErrOut, view.Clean(mistake.Error()))
	}
	if more := len(mistakes) - maxMistakes; more > 0 {
		fmt.Fprintf(c.ErrOut, "and %d more, up to line %d\n", more, mistakes[len(mistakes)-1].Line)
	}
}

func (c *createCommand) done() string {
	switch c.dryRun {
	case dryRunClient:
		return "valid (dry run)"
	case dryRunServer:
		return "accepted by the server (server dry run)"
	}
	return "applied"
}

// check refuses contradictions between flags.
func (c *createCommand) check(args []string) error {
	if err := checkOneOf("--dry-run", c.dryRun, dryRunNone, dryRunClient, dryRunServer); err != nil {
		return err
	}
	if (len(args) == 1) == (c.file != "") {
		return errors.New("either a name or -f INVENTORY is needed")
	}
	if c.file == stdin && c.password == stdin {
		return errors.New("the inventory and the password cannot both come from stdin")
	}
	if c.file != "" {
		for _, v := range c.values {
			if v.flag.Changed {
				return fmt.Errorf("--%s is for a single host: an inventory has the field %s", v.flag.Name, v.field.Name)
			}
		}
	}
	return nil
}

// entries returns the machines that flags or an inventory describe, and the folder to which the
// names of files in the inventory are relative.
func (c *createCommand) entries(args []string, namespace string) (entries []inventory.Entry, mistakes []*inventory.LineError, dir string, err error) {
	if c.file == "" {
		entry := inventory.New(args[0])
		for _, v := range c.values {
			if err := v.field.Set(&entry, v.flag.Value.String()); err != nil {
				return nil, nil, "", err
			}
		}
		return []inventory.Entry{entry}, nil, "", nil
	}
	in := c.In
	if c.file != stdin {
		f, err := os.Open(c.file)
		if err != nil {
			return nil, nil, "", err
		}
		defer f.Close()
		in, dir = f, filepath.Dir(c.file)
	}
	data, err := io.ReadAll(io.LimitReader(in, inventory.MaxSize+1))
	if err != nil {
		return nil, nil, "", err
	}
	entries, mistakes, err = inventory.Read(data, namespace)
	if err != nil && c.file != stdin {
		err = fmt.Errorf("%s: %w", c.file, err)
	}
	return entries, mistakes, dir, err
}

// credentials returns the user name and the password of machines that have none of their own. They
// are asked for on the terminal if they are needed and not given.
func (c *createCommand) credentials(ctx context.Context, entries []inventory.Entry) (common inventory.Credentials, err error) {
	needed := 0
	for _, e := range entries {
		if e.NeedsPassword() {
			needed++
		}
	}
	common.Username = c.username
	switch {
	case c.password == stdin:
		data, err := io.ReadAll(io.LimitReader(c.In, 1<<16))
		if err != nil {
			return common, err
		}
		common.Password, err = cleanPassword(string(data), "stdin")
		return common, err
	case c.password != "":
		common.Password, err = readPasswordFile("", c.password)
		return common, err
	case needed > 0 && c.canAsk():
		prompt := "Password of the BMC: "
		if len(entries) > 1 {
			prompt = fmt.Sprintf("Password of the BMCs of %s: ", view.Plural(needed, "host"))
		}
		common.Password, err = c.readPassword(ctx, prompt)
		return common, err
	}
	return common, nil
}
