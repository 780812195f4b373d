// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestFlagsOfTheOperator checks that each flag of the Bare Metal Operator is either one of this server, or
// refused with what replaces it.
func TestFlagsOfTheOperator(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"namespace", "metrics-addr", "enable-leader-election", "lease-duration-seconds", "renew-deadline-seconds", "retry-period-seconds",
		"build-preprov-image", "hostclaims", "dev", "provisioner", "health-addr", "webhook-port", "kube-api-qps", "kube-api-burst",
		"tls-min-version", "tls-max-version", "tls-cipher-suites", "tls-curve-preferences", "controller-concurrency", "max-provisioning-retries",
	} {
		t.Run(name, func(t *testing.T) {
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			for _, group := range NewOptions().Flags().FlagSets {
				flags.AddFlagSet(group)
			}
			instead, listed := operatorFlags[name]
			if exists := flags.Lookup(name) != nil; exists == listed {
				t.Fatalf("it is a flag here: %t, it is listed as being replaced: %t", exists, listed)
			}
			if !listed {
				return
			}
			for _, arg := range []string{"--" + name + "=1", "-" + name + "=1", "-" + name} {
				if strings.HasPrefix(arg, "-h") {
					continue // asks for help
				}
				err := explainOperatorFlag(nil, flags.Parse([]string{arg}))
				if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), instead) {
					t.Errorf("%s: %v, want an error with %q", arg, err, instead)
				}
			}
			if !strings.Contains(string(docs), "`--"+name+"`") {
				t.Error("it is not documented")
			}
		})
	}
	if err := explainOperatorFlag(nil, os.ErrInvalid); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("another error became %v", err)
	}
}

// TestMetricsOfTheOperator checks that this server has each metric of the Bare Metal Operator, or docs/monitoring.md says what
// replaces it.
func TestMetricsOfTheOperator(t *testing.T) {
	var docs []byte
	for _, name := range []string{"monitoring.md", "reference/metrics.md"} {
		doc, err := os.ReadFile("../../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc...)
	}
	for _, name := range []string{
		"metal3_reconcile_total", "metal3_reconcile_error_total", "metal3_host_error_total", "metal3_operation_power_change_total",
		"metal3_credentials_missing_total", "metal3_credentials_invalid_total", "metal3_credentials_unhandled_error_total",
		"metal3_credentials_updated_total", "metal3_credentials_no_management_access_total", "metal3_host_config_data_error_total",
		"metal3_delayed__provisioning_total", "metal3_delayed__deprovisioning_total", "metal3_operation_register_duration_seconds",
		"metal3_operation_inspect_duration_seconds", "metal3_operation_provision_duration_seconds", "metal3_operation_deprovision_duration_seconds",
		"metal3_provisioning_state_change_total", "metal3_host_registration_required_total", "metal3_host_unmanaged_total",
		"metal3_delete_without_deprovisioning_total", "metal3_provisioner_not_ready_total", "metal3_delete_delayed_for_detached_total",
		"controller_runtime_reconcile_total",
	} {
		if !strings.Contains(string(docs), "`"+name+"`") {
			t.Errorf("%s is not documented", name)
		}
	}
}
