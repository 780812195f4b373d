// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// form is what may stand in an address behind its host. A user and password, a second scheme and a
// fragment may stand in no address.
type form struct {
	// port is the one that is meant where an address has none; plainPort with +http.
	port, plainPort string
	// query are the keys that the query may have.
	query []string
	// checkPath returns what is wrong with a path.
	checkPath func(path string) error
}

// form returns what may stand in addresses of the scheme.
//
//	scheme                port            path                             query
//	ipmi, libvirt, none   623             ignored, but none of Redfish     privilegelevel=LEVEL
//	all others, Redfish   443, or         that of the Redfish system;      none
//	                      80 with +http   none, / or /redfish/v1 means
//	                                      the only one that the BMC has
func (a Access) form() form {
	if a.redfish() {
		return form{port: "443", plainPort: "80", checkPath: checkSystem}
	}
	return form{port: "623", query: []string{"privilegelevel"}, checkPath: checkIgnored}
}

// Check returns what is wrong with an address that somebody writes, and what to write instead. Parse
// understands more than that, because there are hosts that have had their address since before there
// was a rule. The error names the address without any user and password.
func Check(address string) error {
	// Parse refuses an @ before anything of the address is told.
	if err := checkText(address); err != nil && !strings.Contains(address, "@") {
		return refused(address, err)
	}
	access, err := Parse(address, false)
	if err != nil {
		return err
	}
	if err := access.checkName(); err != nil {
		return refused(address, err)
	}
	_, rest := split(address)
	parsed, err := url.Parse("bmc://" + rest)
	if err != nil {
		return refused(address, err)
	}
	if err := access.form().check(parsed); err != nil {
		return refused(address, err)
	}
	return nil
}

// Warning returns what somebody should know of an address that Check accepts; nothing if that is as usual. Nearly all BMCs have their Systems
// below /redfish/v1/Systems, but the specification has left that to them for long.
func Warning(address string) string {
	access, err := Parse(address, false)
	if err != nil || !access.redfish() || Check(address) != nil {
		return ""
	}
	system := cleanSystem(access.endpoint.path)
	parts := strings.Split(strings.ToLower(strings.Trim(system, "/")), "/")
	if system == "" || len(parts) > 3 && parts[0] == "redfish" && parts[1] == "v1" {
		return ""
	}
	return fmt.Sprintf("the path %s is hardly that of a Redfish system: most BMCs have that at a path such as /redfish/v1/Systems/%s", excerpt(system), excerpt(path.Base(system)))
}

// checkName refuses the names that Ironic's driver ipmi does not take since 33.0. Others permit the underscore that DNS servers do.
func (a Access) checkName() error {
	label, _, _ := strings.Cut(a.endpoint.host, ".")
	if a.redfish() || !strings.Contains(label, "_") {
		return nil
	}
	return fmt.Errorf("the first part of the name, %s, has an underscore, which Ironic does not take with IPMI: write the IP address of the BMC, or give it a DNS name such as %s", excerpt(label), excerpt(strings.ReplaceAll(label, "_", "-")))
}

func refused(address string, err error) error {
	return fmt.Errorf("BMC address %q: %w", excerpt(Redact(address)), err)
}

func checkText(address string) error {
	if strings.TrimSpace(address) != address {
		return errors.New("begins or ends with a space: remove it")
	}
	if strings.ContainsFunc(address, isInvisible) {
		return errors.New("has an invisible character, such as a line break: type the address anew, without it")
	}
	return checkOneScheme(address)
}

// isInvisible reports whether a character cannot be seen. A space in a path can be meant: Ironic encodes it.
func isInvisible(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.IsSpace(r) && r != ' '
}

var twoSchemes = regexp.MustCompile(`^([a-zA-Z0-9+.-]+):(?://)?([a-zA-Z][a-zA-Z0-9+.-]*):(/+)(.*)$`)

// checkOneScheme refuses the URL of a BMC behind a scheme, as in redfish://https://192.0.2.1, in which https
// would be the host.
func checkOneScheme(address string) error {
	match := twoSchemes.FindStringSubmatch(address)
	if match == nil {
		return nil
	}
	outer, inner, slashes, rest := strings.ToLower(match[1]), strings.ToLower(match[2]), match[3], match[4]
	access, _, isKnown := lookup(outer)
	_, _, isKnownInside := lookup(inner)
	isWeb := inner == "http" || inner == "https"
	if len(slashes) == 1 && !isWeb && !isKnownInside { // a host with an empty port
		return nil
	}
	instead := outer
	switch {
	case isKnown && access.redfish() && inner == "http":
		instead = access.Scheme + "+http"
	case isKnown && access.redfish() && inner == "https":
		instead = access.Scheme
	case isKnownInside:
		instead = inner
	}
	return fmt.Errorf("has two schemes, %s and %s: write %s://%s", excerpt(outer), excerpt(inner), excerpt(instead), excerpt(rest))
}

// check returns what is wrong with the parts of an address behind its host.
func (f form) check(parsed *url.URL) error {
	if parsed.Fragment != "" {
		return fmt.Errorf("must not have a fragment: leave out #%s", excerpt(parsed.Fragment))
	}
	if err := f.checkQuery(parsed.RawQuery); err != nil {
		return err
	}
	if strings.ContainsFunc(parsed.Path, isInvisible) {
		return errors.New("the path has an encoded invisible character: leave it out")
	}
	return f.checkPath(parsed.Path)
}

func (f form) checkQuery(query string) error {
	if query == "" {
		return nil
	}
	if len(f.query) == 0 {
		return fmt.Errorf("must not have a query: leave out ?%s", excerpt(query))
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("the query cannot be read: %s", excerpt(err.Error()))
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(f.query, key):
			return fmt.Errorf("the query may have %s only: leave out %s", strings.Join(f.query, ", "), excerpt(key))
		case len(values[key]) > 1 || values[key][0] == "":
			return fmt.Errorf("the query must have one value for %s, as in ?privilegelevel=OPERATOR", key)
		}
	}
	return nil
}

// notSystems are the resources below the root of a Redfish service that people take for that of the machine, or
// that cannot be one. What is not among them may be one: the specification left the paths to the BMC until 2018.
var notSystems = []string{
	"managers", "chassis", "accountservice", "sessionservice", "eventservice", "updateservice", "taskservice", "tasks", "registries", "jsonschemas",
}

// checkIgnored refuses paths of Redfish in an address of IPMI: its scheme was left out, or written without a colon.
func checkIgnored(path string) error {
	if !strings.Contains(strings.ToLower(path)+"/", "/redfish/") {
		return nil
	}
	return errors.New("the path is one of Redfish, which IPMI does not know: begin the address with redfish:// or redfish-virtualmedia://")
}

// checkSystem refuses paths of a Redfish service that are known not to be those of systems.
func checkSystem(name string) error {
	const instead = "write that of a system, as in /redfish/v1/Systems/1, or leave the path out if the BMC has only one"
	if strings.HasPrefix(name, "//") { // clients take what follows for another host
		return errors.New("the path begins with more than one slash: write one")
	}
	parts := strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	if !strings.EqualFold(parts[0], "redfish") {
		return nil
	}
	switch {
	case len(parts) == 1:
		return fmt.Errorf("the path is not that of a Redfish system: %s", instead)
	case len(parts) == 3 && strings.EqualFold(parts[2], "Systems"):
		return fmt.Errorf("the path is that of all systems of the BMC: %s", instead)
	case len(parts) >= 3 && slices.Contains(notSystems, strings.ToLower(parts[2])):
		return fmt.Errorf("the path leads to %s, which is not a Redfish system: %s", excerpt(parts[2]), instead)
	}
	return nil
}
