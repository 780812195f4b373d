// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/weburl"
)

const (
	// maxCleanSteps bounds the steps of a request, and maxCleanArgs the arguments of a step, in bytes: they
	// are kept in the status of the host.
	maxCleanSteps = 32
	maxCleanArgs  = 8 << 10
	// maxCleanNesting bounds how deep the arguments of a step are nested.
	maxCleanNesting = 16
)

// CleanSteps are clean steps, as INTERFACE.STEP.
type CleanSteps struct{ names sets.Set[string] }

// harmlessSteps are the steps that the ramdisk and the drivers have of their own, and that change
// nothing but what is on the disks. All others have to be allowed by the administrator: they change the
// settings or the firmware of the machine (bios.factory_reset, management.update_firmware), fetch
// or send something (management.import_configuration, deploy.inject_files, deploy.burnin_network), or reset
// the BMC (management.reset_idrac, management.known_good_state), which may be that of other machines, too.
var harmlessSteps = []string{
	"deploy.erase_devices",
	"deploy.erase_devices_express",
	"deploy.erase_devices_metadata",
	// The crash logs of earlier kernels, which are kept outside the disks.
	"deploy.erase_pstore",
	// Load for some hours. The disks and the network are not used for these.
	"deploy.burnin_cpu",
	"deploy.burnin_memory",
	// What waits in the queue of an iDRAC is dropped, and no setting is changed. Steps of this server do not
	// wait there meanwhile, because a clean begins only on a host for which nothing is under way.
	"management.clear_job_queue",
}

var cleanStepPattern = regexp.MustCompile(`^[a-z]+\.[a-zA-Z0-9_]+$`)

// cleanInterfaces are those of the drivers that have clean steps.
var cleanInterfaces = []string{"deploy", "management", "bios", "power", "raid", "vendor", "firmware"}

// settingOf returns what is to be set instead of asking for a step; empty if it can be asked for.
func settingOf(iface, step string) string {
	switch {
	case iface == "firmware":
		return "set spec.updates of the host's HostFirmwareComponents"
	case iface == "raid":
		return "set spec.raid of the host"
	case iface == "bios" && step == "apply_configuration":
		return "set spec.settings of the host's HostFirmwareSettings"
	}
	return ""
}

// AllowCleanSteps returns the steps that are known to be harmless, and those that the administrator
// allows in addition, as INTERFACE.STEP. Those for which there is a setting cannot be allowed: the
// setting would be contradicted.
func AllowCleanSteps(more []string) (CleanSteps, error) {
	steps := CleanSteps{sets.New(harmlessSteps...)}
	for _, name := range more {
		iface, step, _ := strings.Cut(name, ".")
		switch setting := settingOf(iface, step); {
		case len(name) > maxIronicName || !cleanStepPattern.MatchString(name) || !slices.Contains(cleanInterfaces, iface):
			return steps, fmt.Errorf("%q is not INTERFACE.STEP with one of the interfaces %s, as in bios.factory_reset", name, strings.Join(cleanInterfaces, ", "))
		case setting != "":
			return steps, fmt.Errorf("%s cannot be allowed; instead, %s", name, setting)
		}
		steps.names.Insert(name)
	}
	return steps, nil
}

// ValidateHostClean validates a request to the clean subresource for any of the allowed steps. Which of
// them a machine has is known to Ironic only.
func ValidateHostClean(clean *v1alpha1.HostClean, allowed CleanSteps) field.ErrorList {
	path := field.NewPath("spec", "steps")
	switch n := len(clean.Spec.Steps); {
	case n == 0:
		return field.ErrorList{field.Required(path, "at least one clean step, for example interface deploy and step erase_devices")}
	case n > maxCleanSteps:
		return field.ErrorList{field.TooMany(path, n, maxCleanSteps)}
	}
	var all field.ErrorList
	for i, step := range clean.Spec.Steps {
		path := path.Index(i)
		errs := requiredEnum(path.Child("interface"), step.Interface, cleanInterfaces...)
		switch name := path.Child("step"); {
		case step.Step == "":
			errs = append(errs, field.Required(name, "the name of a clean step"))
		case len(step.Step) > maxIronicName:
			errs = append(errs, field.TooLong(name, "", maxIronicName))
		case len(errs) == 0 && !allowed.names.Has(step.Interface+"."+step.Step):
			errs = append(errs, field.Forbidden(name, allowed.refusal(step)))
		}
		all = append(all, errs...)
		all = append(all, validateCleanArgs(step, path.Child("args"))...)
	}
	return all
}

func (s CleanSteps) refusal(step v1alpha1.CleanStep) string {
	if setting := settingOf(step.Interface, step.Step); setting != "" {
		return setting
	}
	return fmt.Sprintf("is not known to be harmless; use one of %s, or have the administrator of the server allow it with --clean-steps",
		strings.Join(sets.List(s.names), ", "))
}

func validateCleanArgs(step v1alpha1.CleanStep, path *field.Path) field.ErrorList {
	if step.Args == nil {
		return nil
	}
	if len(step.Args.Raw) > maxCleanArgs {
		return field.ErrorList{field.TooLong(path, "", maxCleanArgs)}
	}
	args := map[string]any{}
	if err := json.Unmarshal(step.Args.Raw, &args); err != nil {
		return field.ErrorList{field.Invalid(path, "", "must be an object")}
	}
	return validateArg(args, path, maxCleanNesting)
}

// validateArg checks all texts in an argument, also the names of fields: only the step knows which of
// them are URLs.
func validateArg(value any, path *field.Path, depth int) (all field.ErrorList) {
	if depth == 0 {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("must not be nested more than %d deep", maxCleanNesting))}
	}
	switch v := value.(type) {
	case string:
		if weburl.IsURL(v) {
			return validateURL(path, v, weburl.Image)
		}
	case []any:
		for i, item := range v {
			all = append(all, validateArg(item, path.Index(i), depth-1)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if weburl.IsURL(name) {
				all = append(all, field.Invalid(path, redacted(name), "must not have a URL as the name of a field"))
				continue
			}
			all = append(all, validateArg(v[name], path.Child(name), depth-1)...)
		}
	}
	return all
}
