// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	ironicapi "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/version"
)

// build is what the command version prints: what a program is, and what it works with.
type build struct {
	Version string `json:"version"`
	// Serves has the groups and versions of the API.
	Serves []string `json:"serves"`
	// RecordEpoch is the highest one that is read, and the one that is written (docs/install.md, "Update").
	RecordEpoch int       `json:"recordEpoch"`
	IronicAPI   ironicAPI `json:"ironicAPI"`
	// Modules has the versions of the libraries that decide what works together.
	Modules map[string]string `json:"modules,omitempty"`
}

// ironicAPI is the span of versions of Ironic's API.
type ironicAPI struct {
	Oldest string `json:"oldest"`
	Newest string `json:"newest"`
}

var shownModules = []string{"k8s.io/apiserver", "go.etcd.io/etcd/server/v3", "github.com/gophercloud/gophercloud/v2"}

func newVersionCommand() *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:          "version",
		Short:        "Print what this build is, and which API, records and Ironics it works with",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild(cmd.Root().Name())
			switch output {
			case "":
				return b.print(cmd.OutOrStdout())
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(b)
			}
			return fmt.Errorf("--output is %q: it can only be json", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "json, or empty for people.")
	return cmd
}

func thisBuild(program string) *build {
	b := &build{
		Version:     version.Line(program),
		Serves:      []string{metal3.SchemeGroupVersion.String(), ironicapi.SchemeGroupVersion.String()},
		RecordEpoch: metal3.RecordEpoch,
		IronicAPI:   ironicAPI{Oldest: ironic.OldestAPIVersion.String(), Newest: ironic.NewestAPIVersion.String()},
		Modules:     map[string]string{},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			for _, shown := range shownModules {
				if module.Path == shown {
					b.Modules[shown] = module.Version
				}
			}
		}
	}
	return b
}

func (b *build) print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s\nServes:        %s\nRecord epoch:  %d\nIronic API:    %s or later; what came after %s is not used\n",
		b.Version, strings.Join(b.Serves, ", "), b.RecordEpoch, b.IronicAPI.Oldest, b.IronicAPI.Newest)
	for _, module := range shownModules {
		if v := b.Modules[module]; v != "" && err == nil {
			_, err = fmt.Fprintf(out, "Built with:    %s %s\n", module, v)
		}
	}
	return err
}
