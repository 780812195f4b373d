// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// operatorFlags are the flags of the Bare Metal Operator that this server does not have, with what
// replaces each of them.
var operatorFlags = map[string]string{
	"controller-concurrency": "set --workers",
	"dev":                    "set --logging-format and -v",
	"enable-leader-election": "set --leader-elect, which is the default",
	"health-addr":            "/livez and /readyz are served at --secure-port",
	"hostclaims":             "HostClaims are always acted on",
	"kube-api-burst":         "the rate of requests to kube-apiserver cannot be set",
	"kube-api-qps":           "the rate of requests to kube-apiserver cannot be set",
	"lease-duration-seconds": "set --leader-elect-lease-duration",
	"metrics-addr":           "/metrics is served at --secure-port",
	"namespace":              "set --namespaces",
	"provisioner":            "there is no other than Ironic",
	"renew-deadline-seconds": "set --leader-elect-renew-deadline",
	"retry-period-seconds":   "set --leader-elect-retry-period",
	"tls-max-version":        "the latest version that client and server have in common is used",
	"webhook-port":           "there are no webhooks, because the server itself validates objects",
}

// explainOperatorFlag adds to the error about a flag that does not exist what replaces it, if it is
// one of the Bare Metal Operator.
func explainOperatorFlag(_ *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		name = short // the operator also takes flags with a single dash, which look like a series of short ones
	}
	name, _, _ = strings.Cut(name, "=")
	if instead, ok := operatorFlags[name]; ok {
		return fmt.Errorf("%w; it is a flag of the Bare Metal Operator: %s", err, instead)
	}
	return err
}
